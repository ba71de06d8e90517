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
  if (asked.back() - asked.front() + 1 == range.count) {
    some.values = rows.row(asked.front() - rows.first).data();
    return some;
  }
  copied_.clear();
  for (const std::size_t row : asked) {
    const std::span<const float> values = rows.row(row - rows.first);
    copied_.insert(copied_.end(), values.begin(), values.end());
  }
  some.values = copied_.data();
  return some;
}

}  // namespace outrider
