// The rows of a pass that somebody watches, of several riders, put together for one product with an
// exit's head.
//
//   (clear add* of*)*
//
// Thread rule: the compute thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/engine/model/model.h"

namespace outrider {

// Among the rows of a pass that want logits.
struct RowRange {
  std::size_t first = 0;
  std::size_t count = 0;

  std::size_t end() const { return first + count; }
};

class WatchedRows final {
 public:
  void clear() { rows_.clear(); }
  // The next rows, by their numbers among those of the pass that want logits; rising.
  void add(std::size_t row) { rows_.push_back(row); }
  std::size_t size() const { return rows_.size(); }

  // Which of the watched rows `rows` holds, by their numbers among the watched ones.
  RowRange among(const HiddenRows& rows) const;
  // Those alone. Points into `rows` where they stand side by side there, else to a copy that lasts
  // until the next call.
  HiddenRows of(const HiddenRows& rows);

 private:
  std::vector<std::size_t> rows_;
  std::vector<float> copied_, copied_logits_;
};

}  // namespace outrider
