// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/select.h"

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

BestKeys::BestKeys(std::size_t count, std::vector<SelectKey>& keys)
    : count_(count), keys_(keys), bar_(-std::numeric_limits<float>::infinity()) {
  keys_.clear();
}

void BestKeys::offer(float value, std::size_t id) {
  if (count_ == 0) return;
  keys_.push_back(make_key(value, id));
  if (keys_.size() >= 2 * count_) settle();
}

void BestKeys::settle() {
  if (count_ == 0 || keys_.size() < count_) return;
  std::nth_element(keys_.begin(), keys_.begin() + static_cast<std::ptrdiff_t>(count_ - 1),
                   keys_.end(), std::greater<>());
  keys_.resize(count_);
  bar_ = value_of(keys_.back());
}

void BestKeys::sort() {
  settle();
  std::sort(keys_.begin(), keys_.end(), std::greater<>());
}

void select_best(std::span<const float> values, std::size_t count, std::vector<SelectKey>& keys) {
  BestKeys best(std::min(count, values.size()), keys);
  for (std::size_t id = 0; id < values.size(); ++id) {
    // An equal value comes with a higher id, so it is excluded too.
    if (values[id] > best.bar()) best.offer(values[id], id);
  }
  best.sort();
}

}  // namespace outrider
