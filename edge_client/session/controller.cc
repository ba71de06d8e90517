// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/controller.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// What acceptance is taken for before it is known: this chance, with the weight of so many tries.
constexpr double kPriorChance = 0.65;
constexpr double kPriorTries = 3;
constexpr double kKeepTries = 0.96;

constexpr double kKeepPace = 0.9;            // per verdict: about ten count
constexpr std::uint64_t kTrialVerdicts = 8;  // speculation is judged after so many
constexpr double kTooSlow = 1.03;            // off above this share of the time without a draft
constexpr std::uint64_t kFirstProbe = 64;    // tokens until it is tried again ..
constexpr std::uint64_t kLastProbe = 1024;   // .. and at most

// Patience beyond what a round takes on average, and the change of it that is worth a message.
constexpr double kPatienceSlack = 1.5;
constexpr Duration kLeastSlack = std::chrono::milliseconds(3);
constexpr double kPatienceStep = 1.5;

}  // namespace

void AcceptanceByDepth::observe(std::size_t length, std::size_t accepted) {
  for (std::size_t i = 0; i < std::min({length, accepted + 1, kMost}); ++i) {
    tried_[i] = tried_[i] * kKeepTries + 1;
    stood_[i] = stood_[i] * kKeepTries + (i < accepted ? 1 : 0);
  }
}

double AcceptanceByDepth::of(std::size_t k) const {
  double chance = 1;
  for (std::size_t i = 0; i < std::min(k, kMost); ++i) {
    chance *= (stood_[i] + kPriorTries * kPriorChance) / (tried_[i] + kPriorTries);
  }
  return chance;
}

std::optional<double> Controller::Pace::per_token() const {
  if (tokens <= 0) return std::nullopt;
  return seconds / tokens;
}

Controller::Controller(Optimize goal, int most_gamma)
    : goal_(goal), most_gamma_(most_gamma), probe_after_(kFirstProbe) {
  plan_.gamma = most_gamma;
  plan_.wait_for = most_gamma;
  plan_.reason = "nothing is measured yet";
  plan_.policy.wants_exits = true;
  // A round drafted while the prompt is read is whole; after that nobody waits for what was not
  // measured.
  if (goal_ != Optimize::kCost) plan_.policy.pass_policy = PassPolicy::kEager;
}

void Controller::verdict(std::size_t tokens, std::size_t chain, TimePoint now) {
  if (chain > 0) acceptance_.observe(chain, tokens - 1);
  tokens_ += tokens;
  if (last_verdict_) {
    Pace& pace = plan_.speculates ? with_ : without_;
    pace.seconds = pace.seconds * kKeepPace + to_seconds(now - *last_verdict_);
    pace.tokens = pace.tokens * kKeepPace + static_cast<double>(tokens);
    ++pace.verdicts;
  }
  last_verdict_ = now;
}

Duration Controller::per_token() const {
  return from_ms(pace().per_token().value_or(0) * 1e3);
}

const SpeculationPlan& Controller::plan(const Timings& timings) {
  if (goal_ == Optimize::kCost || !timings.pass.known()) return plan_;
  switch_on_or_off(timings);
  if (plan_.speculates && timings.draft_step.known()) {
    double theta = with_.per_token().value_or(to_seconds(timings.pass.of(1)));
    if (goal_ == Optimize::kBalanced) theta += 0.5 * to_seconds(timings.pass.of(1));
    const SpeculationPlan before = plan_;
    plan_.gamma = best_gamma(timings, theta);
    plan_.wait_for = best_wait(timings, theta);
    if (!plan_.same_course(before)) {
      plan_.reason = fmt::format(
          "a token takes {:.1f} ms, a draft step {:.1f} ms, the round trip {:.1f} ms, and the "
          "first guess stands in {:.0f} %",
          theta * 1e3, to_ms(timings.draft_step.of(1)), to_ms(timings.round_trip()),
          acceptance_.of(1) * 100);
    }
  }
  set_policy(timings);
  return plan_;
}

void Controller::switch_on_or_off(const Timings& timings) {
  if (!plan_.speculates) {
    if (tokens_ < probe_at_) return;
    plan_.speculates = true;
    plan_.reason = "to see whether it pays by now";
    with_ = {};
    last_verdict_.reset();
    return;
  }
  const std::optional<double> with = with_.per_token();
  if (!with || with_.verdicts < kTrialVerdicts) return;
  const double without = without_.per_token().value_or(to_seconds(timings.pass.of(1)));
  if (*with <= without * kTooSlow) {
    probe_after_ = kFirstProbe;
    return;
  }
  plan_.speculates = false;
  plan_.reason = fmt::format("a token takes {:.1f} ms with the draft and {:.1f} ms without",
                             *with * 1e3, without * 1e3);
  probe_at_ = tokens_ + probe_after_;
  probe_after_ = std::min(2 * probe_after_, kLastProbe);
  without_ = {};
  last_verdict_.reset();
}

// What a pass of `rows` rows takes longer than one of a single row.
double Controller::added_time(const Timings& timings, int rows) const {
  return to_seconds(timings.pass.of(static_cast<std::size_t>(rows)) - timings.pass.of(1));
}

int Controller::best_gamma(const Timings& timings, double theta) const {
  int gamma = 1;
  while (gamma < most_gamma_) {
    const double gain = acceptance_.of(static_cast<std::size_t>(gamma) + 1) * theta;
    if (gain <= added_time(timings, gamma + 2) - added_time(timings, gamma + 1)) break;
    ++gamma;
  }
  return gamma;
}

int Controller::best_wait(const Timings& timings, double theta) const {
  const double step = to_seconds(timings.draft_step.of(1));
  const double round_trip = to_seconds(timings.round_trip());
  int best = 0;
  double most = 0;
  double expected = 0;
  for (int j = 1; j <= plan_.gamma; ++j) {
    expected += acceptance_.of(static_cast<std::size_t>(j));
    const double gain = expected * theta - (round_trip + j * step) - added_time(timings, j + 1);
    if (gain > most) {
      most = gain;
      best = j;
    }
  }
  return best;
}

void Controller::set_policy(const Timings& timings) {
  Policy& policy = plan_.policy;
  policy.wants_exits = plan_.speculates;
  policy.row_limit = plan_.speculates ? static_cast<std::uint32_t>(plan_.gamma) : 0;
  if (!plan_.speculates || plan_.wait_for == 0) {
    policy.patience = Duration{0};
    return;
  }
  const Duration round = timings.round_trip() + plan_.wait_for * timings.draft_step.of(1);
  const Duration wanted = std::max(from_ms(to_ms(round) * kPatienceSlack), round + kLeastSlack);
  const double ratio = to_ms(wanted) / std::max(to_ms(policy.patience), 1e-3);
  if (ratio > kPatienceStep || ratio < 1 / kPatienceStep) policy.patience = wanted;
}

}  // namespace outrider
