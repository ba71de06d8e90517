// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/round_worth.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// The assumed acceptance before it is known: this chance, with the weight of so many tries.
constexpr double kPriorChance = 0.65;
constexpr double kPriorTries = 3;

constexpr double kKeepTries = 0.96;  // of the older tries' weight, per try: about 25 count

// An answer begins without speculation where a draft's token comes in time and stands less often
// than this, with a good draft's first guess while its own is not known by so many tries.
constexpr double kHopeless = 0.1;
constexpr double kGoodFirstGuess = 0.85;
constexpr double kKnownTries = 5;

}  // namespace

void AcceptanceByDepth::record(std::size_t length, std::size_t accepted) {
  for (std::size_t i = 0; i < std::min({length, accepted + 1, kMaxDepth}); ++i) {
    tried_[i] = tried_[i] * kKeepTries + 1;
    stood_[i] = stood_[i] * kKeepTries + (i < accepted ? 1 : 0);
  }
}

std::size_t AcceptanceByDepth::depth() const {
  std::size_t depth = kMaxDepth;
  while (depth > 0 && tried_[depth - 1] == 0) --depth;
  return depth;
}

std::vector<double> AcceptanceByDepth::tried() const {
  return {tried_.begin(), tried_.begin() + static_cast<std::ptrdiff_t>(depth())};
}

std::vector<double> AcceptanceByDepth::stood() const {
  return {stood_.begin(), stood_.begin() + static_cast<std::ptrdiff_t>(depth())};
}

void AcceptanceByDepth::restore(std::span<const double> tried, std::span<const double> stood) {
  const std::size_t depth = std::min({tried.size(), stood.size(), kMaxDepth});
  tried_.fill(0);
  stood_.fill(0);
  std::copy_n(tried.begin(), depth, tried_.begin());
  std::copy_n(stood.begin(), depth, stood_.begin());
}

double AcceptanceByDepth::of(std::size_t k) const {
  double chance = 1;
  for (std::size_t i = 0; i < std::min(k, kMaxDepth); ++i) {
    chance *= (stood_[i] + kPriorTries * kPriorChance) / (tried_[i] + kPriorTries);
  }
  return chance;
}

double share_of_hit(const CacheLookup& found, const Timings& timings, int wait_for) {
  const bool brings = found.drafted > 0 || found.in_step;
  if (wait_for == 0 || !brings) return brings ? 1 : 0;
  const double step = to_seconds(timings.draft_step.of(1));
  const double round_trip = to_seconds(timings.round_trip());
  const double steps = static_cast<double>(found.drafted) + (found.in_step ? 0.5 : 0);
  const double saved =
      std::min<double>(steps, wait_for) * step + (found.sent_id != 0 ? round_trip : 0);
  const double whole = wait_for * step + round_trip;
  return whole > 0 ? saved / whole : 1;
}

double RoundWorth::added_time(int rows) const {
  return to_seconds(timings_.pass_of(static_cast<std::size_t>(rows), exits_) -
                    timings_.pass_of(1, exits_));
}

// Passes are a line over their rows (timings.h): the next row costs what the second did.
double RoundWorth::least_chance() const {
  return theta_ > 0 ? std::clamp(added_time(2) / theta_, 0.0, 1.0) : 0;
}

double RoundWorth::least_chance_in_turn() const {
  if (theta_ <= 0) return 0;
  const double step = to_seconds(timings_.draft_step.of(1));
  return std::clamp((step + added_time(2)) / theta_, 0.0, 1.0);
}

int RoundWorth::best_length(int most) const {
  int length = 1;
  while (length < most) {
    const double gain = acceptance_.of(static_cast<std::size_t>(length) + 1) * theta_;
    if (gain <= added_time(length + 2) - added_time(length + 1)) break;
    ++length;
  }
  return length;
}

int RoundWorth::best_wait(int length) const {
  const double step = to_seconds(timings_.draft_step.of(1));
  const double round_trip = to_seconds(timings_.round_trip());
  int best = 0;
  double largest = 0;
  double expected = 0;
  for (int j = 1; j <= length; ++j) {
    expected += acceptance_.of(static_cast<std::size_t>(j));
    const double gain = expected * theta_ - (round_trip + j * step) - added_time(j + 1);
    if (gain > largest) {
      largest = gain;
      best = j;
    }
  }
  return best;
}

double RoundWorth::of_hit(int length, int wait_for) const {
  if (wait_for > 0) {
    return to_seconds(timings_.round_trip() + wait_for * timings_.draft_step.of(1));
  }
  double expected = 0;
  for (int k = 1; k <= length; ++k) expected += acceptance_.of(static_cast<std::size_t>(k));
  return std::max(0.0, expected * theta_ - added_time(length + 1));
}

std::string RoundWorth::why_hopeless(int length) const {
  if (theta_ <= 0 || best_wait(length) > 0) return {};
  const double step = to_seconds(timings_.draft_step.of(1));
  if (step >= theta_) {
    return fmt::format(
        "a draft step takes {:.1f} ms and a token {:.1f} ms: the draft cannot get ahead",
        step * 1e3, theta_ * 1e3);
  }
  const double ahead = to_seconds(timings_.round_trip() + timings_.draft_step.of(1)) / theta_;
  const std::vector<double> tried = acceptance_.tried();
  const bool known = !tried.empty() && tried.front() >= kKnownTries;
  const double chance = std::pow(known ? acceptance_.of(1) : kGoodFirstGuess, ahead + 1);
  if (chance >= kHopeless) return {};
  return fmt::format(
      "a token takes {:.1f} ms and the round trip {:.1f} ms: a draft would have to be right {:.0f} "
      "tokens ahead",
      theta_ * 1e3, to_ms(timings_.round_trip()), ahead);
}

}  // namespace outrider
