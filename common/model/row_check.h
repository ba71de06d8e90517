// Checks that every backend makes before a pass (model.h, "Errors"), and checks of its logits
// before a token is chosen.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// A cache that knows its model.
class OwnedKvCache : public KvCache {
 public:
  // `owner` identifies the model.
  OwnedKvCache(const void* owner, std::int32_t capacity)
      : KvCache(capacity), owner_(owner), pass_rows_(static_cast<std::size_t>(capacity), -1) {}

  const void* owner() const { return owner_; }

  // By slot: the row of the checked pass that fills it, or -1. All -1 between passes.
  std::vector<std::int32_t>& pass_rows() { return pass_rows_; }

 private:
  const void* owner_;
  std::vector<std::int32_t> pass_rows_;
};

Status check_capacity(std::int32_t capacity);

// The number of rows in a pass's first part where at most `most` rows are computed together: the
// remainder, so that all later parts are full (LayerTap in model.h).
constexpr std::size_t first_part(std::size_t rows, std::size_t most) {
  return rows % most != 0 ? rows % most : most;
}

// kInvalidArgument naming the row unless every row's cache is an OwnedKvCache of `owner`, its token
// is in the vocabulary, its slot is in use, uncommitted and no other row's, its position is within
// the model's, and its parent's row, if in this pass, comes before it.
Status check_rows(std::span<const Row> rows, const ModelInfo& info, const void* owner);

// kDataLoss naming row and position if a row of the logits has no entry above -infinity. Without
// this check the law of choice would silently choose token 0. Reads only one entry of a valid row.
Status check_logits(std::span<const Row> rows, const PassOutput& out);
// Like check_logits(), for rows[row], whose logits are at `index`.
Status check_logits_of(std::span<const Row> rows, std::size_t row, const PassOutput& out,
                       std::size_t index);

}  // namespace outrider
