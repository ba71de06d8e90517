// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/levels/level_track.h"

#include <algorithm>

namespace outrider {
namespace {

// So many tokens behind the first round make a loop.
constexpr std::size_t needed(std::size_t period) {
  return std::max(LoopWatch::kLoop, 2 * period) - period;
}
static_assert(needed(LoopWatch::kPeriods) <= 255);

}  // namespace

bool LoopWatch::push(TokenId token) {
  bool loops = false;
  for (std::size_t period = 1; period <= std::min(count_, kPeriods); ++period) {
    std::uint8_t& repeated = repeated_[period - 1];
    const bool same = last_[(count_ - period) % kPeriods] == token;
    repeated = same ? static_cast<std::uint8_t>(repeated + 1) : std::uint8_t{0};
    loops = loops || repeated >= needed(period);
  }
  last_[count_++ % kPeriods] = token;
  if (!loops) return false;
  for (std::size_t period = 1; period <= kPeriods; ++period) {
    const auto most = static_cast<std::uint8_t>(needed(period) - kAgain);
    repeated_[period - 1] = std::min(repeated_[period - 1], most);
  }
  return true;
}

std::optional<LevelSwitch> LevelTrack::next_named() const {
  if (switches_.size() >= choice_.then.size()) return std::nullopt;
  return choice_.then[switches_.size()];
}

std::optional<std::size_t> LevelTrack::push(TokenId token) {
  ++tokens_;
  const std::optional<LevelSwitch> named = next_named();
  if (named && named->from_token == tokens_) return named->level;
  if (!choice_.leaves_loops || !loops_.push(token)) return std::nullopt;
  return next_larger_level(profile_, level(), choice_.least_quality);
}

}  // namespace outrider
