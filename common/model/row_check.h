// What every backend checks before a pass touches anything (model.h, "Errors"), and what the code
// that chooses from a pass checks after it.
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
  // `owner` tells the caches of one model from those of another.
  OwnedKvCache(const void* owner, std::int32_t capacity)
      : KvCache(capacity), owner_(owner), pass_rows_(static_cast<std::size_t>(capacity), -1) {}

  const void* owner() const { return owner_; }

  // By slot, the row of the pass being checked that fills it, or -1. All -1 between passes.
  std::vector<std::int32_t>& pass_rows() { return pass_rows_; }

 private:
  const void* owner_;
  std::vector<std::int32_t> pass_rows_;
};

Status check_capacity(std::int32_t capacity);

// Rows of a pass's first part where at most `most` rows are computed together: what is left over,
// so that all later parts are full (LayerTap in model.h).
constexpr std::size_t first_part(std::size_t rows, std::size_t most) {
  return rows % most != 0 ? rows % most : most;
}

// kInvalidArgument naming the row unless every row's cache is an OwnedKvCache of `owner`, its token
// in the vocabulary, its slot in use, uncommitted and no other row's, its position within the
// model's, and its parent, if of this pass, before it.
Status check_rows(std::span<const Row> rows, const ModelInfo& info, const void* owner);

// kDataLoss naming row and position unless every row of logits that the pass of `rows` wrote has an
// entry above -infinity: without one the law of choice has nothing to choose from, and would give
// token 0 silently. Looks at one entry of a sound row.
Status check_logits(std::span<const Row> rows, const PassOutput& out);
// The same of one row: rows[row], whose logits stand as those of `index`.
Status check_logits_of(std::span<const Row> rows, std::size_t row, const PassOutput& out,
                       std::size_t index);

}  // namespace outrider
