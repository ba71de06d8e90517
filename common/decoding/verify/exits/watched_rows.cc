// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/watched_rows.h"

#include <algorithm>

namespace outrider {

RowRange WatchedRows::among(const HiddenRows& rows) const {
  const auto begin = std::ranges::lower_bound(rows_, rows.first);
  const auto end = std::ranges::lower_bound(rows_, rows.first + rows.count);
  return {static_cast<std::size_t>(begin - rows_.begin()), static_cast<std::size_t>(end - begin)};
}

HiddenRows WatchedRows::of(const HiddenRows& rows) {
  const RowRange range = among(rows);
  HiddenRows some = rows;
  some.first = range.first;
  some.count = range.count;
  if (range.count == 0) return some;
  const auto asked = std::span<const std::size_t>(rows_).subspan(range.first, range.count);
  const bool side_by_side = asked.back() - asked.front() + 1 == range.count;
  const auto pick = [&](const float*& values, std::size_t width, std::vector<float>& copied) {
    const float* const all = values;
    values = all + (asked.front() - rows.first) * width;
    if (side_by_side) return;
    copied.clear();
    for (const std::size_t row : asked) {
      const float* from = all + (row - rows.first) * width;
      copied.insert(copied.end(), from, from + width);
    }
    values = copied.data();
  };
  pick(some.values, rows.width, copied_);
  if (rows.head_logits != nullptr) pick(some.head_logits, rows.num_head_logits, copied_logits_);
  return some;
}

}  // namespace outrider
