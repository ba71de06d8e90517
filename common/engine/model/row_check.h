// Checks that every backend makes before a pass (model.h, "Errors"), and checks of its logits
// before a token is chosen.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/model.h"

namespace outrider {

// The number of rows in a pass's first part where at most `most` rows are computed together: the
// remainder, so that all later parts are full (LayerTap in model.h).
constexpr std::size_t first_part(std::size_t rows, std::size_t most) {
  return rows % most != 0 ? rows % most : most;
}

// kInvalidArgument naming the row unless every row's cache is in pages of `model`, its token
// is in the vocabulary, its slot is in use, uncommitted and no other row's, its position is within
// the model's, and its parent's row, if in this pass, comes before it.
Status check_rows(std::span<const Row> rows, const ModelInfo& info, const void* model);

// kDataLoss naming row and position if a row of the logits has no entry above -infinity. Without
// this check the law of choice would silently choose token 0. Reads only one entry of a valid row.
Status check_logits(std::span<const Row> rows, const PassOutput& out);
// Like check_logits(), for rows[row], whose logits are at `index`.
Status check_logits_of(std::span<const Row> rows, std::size_t row, const PassOutput& out,
                       std::size_t index);

}  // namespace outrider
