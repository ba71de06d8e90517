// How important each unit of a model is for predicting a text (ElastiLM, equation 2).
//
// Thread rule: one thread; libtorch uses its pool. Errors: libtorch's exceptions as INTERNAL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "adapters/data/corpus.h"
#include "adapters/elastic/level_widths.h"
#include "adapters/train/llama.h"
#include "common/base/status.h"

namespace outrider {

// [layers], units as stored. A unit's gate multiplies its output, so its gradient is the sum of
// weight * gradient over the unit's columns of `down` or of `o`; its magnitudes are added over the
// documents. model: its other parameters stop requiring gradients. on_tokens: called with the
// tokens done.
Result<std::vector<LayerImportance>> unit_importance(
    const Llama& model, const std::vector<Document>& documents,
    const std::function<void(std::int64_t)>& on_tokens);

}  // namespace outrider
