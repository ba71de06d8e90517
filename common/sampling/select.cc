// SPDX-License-Identifier: Apache-2.0
#include "common/sampling/select.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace outrider {
namespace {

constexpr std::uint32_t kSign = 0x80000000u;

// f32 bits as an unsigned number of the same order. Adding 0 makes -0 and 0 equal.
SelectKey make_key(float value, std::size_t id) {
  const float finite = std::min(value, std::numeric_limits<float>::max());
  const auto bits = std::bit_cast<std::uint32_t>(finite + 0.0f);
  const std::uint32_t ordered = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return SelectKey{ordered} << 32 | (0xFFFFFFFFu - static_cast<std::uint32_t>(id));
}

}  // namespace

TokenId token_of(SelectKey key) {
  return static_cast<TokenId>(0xFFFFFFFFu - static_cast<std::uint32_t>(key));
}

float value_of(SelectKey key) {
  const auto ordered = static_cast<std::uint32_t>(key >> 32);
  return std::bit_cast<float>((ordered & kSign) != 0 ? ordered ^ kSign : ~ordered);
}

void select_best(std::span<const float> values, std::size_t count, std::vector<SelectKey>& keys) {
  keys.clear();
  count = std::min(count, values.size());
  if (count == 0) return;
  // Of twice as many candidates the better half survives, and its last value excludes
  // most of what follows. An equal value comes with a higher id, so it is excluded too.
  const std::size_t capacity = 2 * count;
  const auto keep_best = [&keys, count] {
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count - 1),
                     keys.end(), std::greater<>());
    keys.resize(count);
  };
  float bar = -std::numeric_limits<float>::infinity();
  for (std::size_t id = 0; id < values.size(); ++id) {
    if (!(values[id] > bar)) continue;
    keys.push_back(make_key(values[id], id));
    if (keys.size() < capacity) continue;
    keep_best();
    bar = value_of(keys[count - 1]);
  }
  if (keys.size() > count) keep_best();
  std::sort(keys.begin(), keys.end(), std::greater<>());
}

}  // namespace outrider
