// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/draft_experience.h"

#include <algorithm>

namespace outrider {
namespace {

// For so many steps counts what is expected.
constexpr double kPrior = 4;
constexpr double kSessionPrior = 8;
// Below, look-up hardly covers a place, or perhaps.
constexpr float kPerhaps = 0.2f, kLikely = 0.6f;
// The assumed gain of a first step before any was run.
constexpr std::array<double, 3> kAssumed = {0.6, 0.4, 0.15};

}  // namespace

std::size_t DraftGains::cover_of(float covered) {
  if (covered < kPerhaps) return 0;
  return covered < kLikely ? 1 : 2;
}

double DraftGains::chance(std::size_t depth, float covered) const {
  const std::size_t cover = cover_of(covered);
  double chance = kAssumed[cover];
  for (std::size_t d = 0; d <= std::min(depth, kDepths - 1); ++d) {
    const Seen& seen = seen_[d][cover];
    chance = (seen.brought + kPrior * chance) / (seen.steps + kPrior);
  }
  return chance;
}

double DraftGains::chance(std::size_t depth, float covered, const DraftGains& of_all) const {
  const Seen& own = seen_[std::min(depth, kDepths - 1)][cover_of(covered)];
  return (own.brought + kSessionPrior * of_all.chance(depth, covered)) /
         (own.steps + kSessionPrior);
}

void DraftGains::add(std::span<const ChainStep> chain) {
  for (auto& at_depth : seen_) {
    for (Seen& seen : at_depth) seen = {seen.steps * keep_, seen.brought * keep_};
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    Seen& seen = seen_[std::min(i, kDepths - 1)][cover_of(chain[i].covered)];
    seen.steps += 1;
    seen.brought += chain[i].brought ? 1 : 0;
  }
}

}  // namespace outrider
