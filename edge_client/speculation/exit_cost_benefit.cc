// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/exit_cost_benefit.h"

#include <fmt/core.h>

#include <algorithm>

namespace outrider {
namespace {

constexpr std::uint64_t kSeenBefore = 4;   // passes with exits until the next probe
constexpr std::uint64_t kProbePasses = 2;  // passes without exits that end a probe
constexpr std::uint64_t kMinVerdicts = 8;  // verdicts by which exits are judged
constexpr std::uint64_t kMaxWait = 1024;   // tokens until a probe or trial, at most
constexpr double kNoise = 0.02;            // of a pass: what is less may be none
constexpr double kSeenRounds = 2;          // until it is judged how many come without exits
// The largest share of the other rounds that exits foresee.
constexpr double kMaxForeseen = 0.75;

}  // namespace

void ExitCostBenefit::on_verdict(double theirs) {
  theirs_.add(theirs);
  ++verdicts_;
}

std::string ExitCostBenefit::decide(const Timings& timings, double hit_saves,
                                    std::uint64_t tokens) {
  if (!exist_) return {};
  switch (state_) {
    case State::kProbe:
      return end_probe(timings, hit_saves, tokens);
    case State::kOff:
      return try_again(hit_saves, tokens);
    case State::kOn:
      break;
  }
  if (tokens >= probe_at_ && timings.pass.count() >= kSeenBefore) {
    return begin_probe(timings, tokens);
  }
  return judge(timings, hit_saves, tokens);
}

std::string ExitCostBenefit::begin_probe(const Timings& timings, std::uint64_t tokens) {
  state_ = State::kProbe;
  plain_before_ = timings.plain_pass.count();
  give_up_at_ = tokens + kProbeTokens;
  return "to see what the exits cost";
}

std::string ExitCostBenefit::end_probe(const Timings& timings, double hit_saves,
                                       std::uint64_t tokens) {
  const bool seen = timings.plain_pass.count() >= plain_before_ + kProbePasses;
  if (!seen && tokens < give_up_at_) return {};
  if (seen) measure(timings);
  state_ = State::kOn;
  probe_at_ = tokens + probe_after_;
  probe_after_ = std::min(2 * probe_after_, kMaxWait);
  if (std::string why = judge(timings, hit_saves, tokens); !why.empty()) return why;
  if (!seen) return "no pass without exits was seen";
  if (!cost_) return "passes without exits were seen";
  return fmt::format("the exits cost {:.1f} ms a pass", *cost_ * 1e3);
}

std::string ExitCostBenefit::judge(const Timings& timings, double hit_saves, std::uint64_t tokens) {
  if (cost_is_old_) measure(timings);
  if (!cost_) return {};
  if (hopeless(hit_saves)) {
    drop(tokens);
    return fmt::format(
        "the exits cost {:.1f} ms a pass and could win {:.1f} ms ({:.0f} % of the rounds come "
        "without them)",
        *cost_ * 1e3, could_win(hit_saves) * 1e3, unaided_.mean() * 100);
  }
  if (expected_share() * hit_saves >= *cost_) {
    if (verdicts_ >= kMinVerdicts) try_after_ = kEnterTrial;
    return {};
  }
  drop(tokens);
  return fmt::format(
      "the exits cost {:.1f} ms a pass and win {:.1f} ms (they alone foresee {:.0f} %)",
      *cost_ * 1e3, share() * hit_saves * 1e3, share() * 100);
}

void ExitCostBenefit::drop(std::uint64_t tokens) {
  state_ = State::kOff;
  try_at_ = tokens + try_after_;
  try_after_ = std::min(2 * try_after_, kMaxWait);
}

// The passes without exits were seen while they were off; the trial shows those with them.
std::string ExitCostBenefit::try_again(double hit_saves, std::uint64_t tokens) {
  if (tokens < try_at_) return {};
  if (hopeless(hit_saves)) {
    try_at_ = tokens + try_after_;
    return {};
  }
  state_ = State::kOn;
  theirs_.clear();
  verdicts_ = 0;
  cost_is_old_ = true;
  probe_at_ = tokens + probe_after_;
  return "to see whether the exits pay by now";
}

// Seconds a pass, if exits foresaw all that they can. One round more is taken to be half there
// without them.
double ExitCostBenefit::could_win(double hit_saves) const {
  const double missed = unaided_.weight() * (1 - unaided_.mean());
  return kMaxForeseen * (missed + 0.5) / (unaided_.weight() + 1) * hit_saves;
}

bool ExitCostBenefit::hopeless(double hit_saves) const {
  return cost_ && unaided_.weight() >= kSeenRounds && could_win(hit_saves) < *cost_;
}

// A first verdict that they did not foresee says little: as if they had foreseen one of two before.
double ExitCostBenefit::expected_share() const {
  if (verdicts_ >= kMinVerdicts) return share();
  const auto seen = static_cast<double>(verdicts_);
  return (share() * seen + 1) / (seen + 2);
}

void ExitCostBenefit::measure(const Timings& timings) {
  const std::optional<Duration> cost = timings.exits_cost();
  cost_is_old_ = !cost;
  if (!cost) return;
  const bool noise = to_seconds(*cost) < kNoise * to_seconds(timings.pass.of(1));
  cost_ = noise ? 0 : to_seconds(*cost);
}

}  // namespace outrider
