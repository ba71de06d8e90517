// A model that does no work: for measuring everything except the model.
//
// The logits of a row are a cheap function of its token and position: eight peaks at hashed tokens,
// zero elsewhere. So text varies, and two null models with the same vocabulary agree.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/types.h"
#include "common/engine/model/model.h"

namespace outrider {

struct NullModelOptions {
  std::int32_t vocab_size = 32000;  // at least 1
  Position max_positions = 1 << 20;
};

std::unique_ptr<Model> make_null_model(const NullModelOptions& options);

}  // namespace outrider
