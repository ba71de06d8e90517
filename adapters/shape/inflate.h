// Models of any size with known behaviour, for honest benchmarks.
//
// inflate() makes a larger model with the same logits. Feed-forward layers get more columns whose
// down projections are 0; then layers are added whose output projections are 0. So real bytes are
// read and multiplied, and every logit stays the same (to the last bit where sums add the zeros in
// order, as our kernels do).
//
// Thread rule: free functions. No libtorch. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/status.h"
#include "common/engine/model/format/config.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {

// Called with the number of elements written so far and in total.
using WriteProgress = std::function<void(std::int64_t, std::int64_t)>;

// The shape of `config` grown to at least `num_elements` elements, in steps of 32 columns in every
// layer, or of one layer. Feed-forward layers grow to at most 32 times the hidden size before
// layers are added. Errors: kInvalidArgument if the model is already larger, or would need more
// than 1024 layers.
Result<ModelConfig> inflated_shape(const ModelConfig& config, std::int64_t num_elements);

// Reads `model`, writes `out` with at least `num_bytes` of weights in the dtype of `model`, and
// copies the tokenizer. Errors: those of inflated_shape() and of files; kInvalidArgument if `out`
// is `model`; kUnimplemented for a model with biases on its output or feed-forward projections.
Status inflate(const std::string& model, std::int64_t num_bytes, const std::string& out,
               const WriteProgress& progress);

struct InitOptions {
  std::string like;         // a name of known_shape_names()
  std::int32_t layers = 0;  // 0: as in the published shape
  DType dtype = DType::kBF16;
  std::uint64_t seed = 1;
};

// Random weights in a published shape, written block by block.
Status init_model(const InitOptions& options, const std::string& out,
                  const WriteProgress& progress);

}  // namespace outrider
