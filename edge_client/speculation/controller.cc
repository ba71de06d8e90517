// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/controller.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace outrider {
namespace {

constexpr double kKeepPace = 0.9;  // of older verdicts' weight, per verdict: about ten count

// Speculation. Left when a token takes this many times what it takes without the draft, over at
// least kTrialVerdicts verdicts: the 3 % within which the bench holds the controller.
constexpr double kLeaveSpeculation = 1.03;
constexpr std::uint64_t kTrialVerdicts = 8;
// Entered again, for a trial, after this many tokens; twice as many after each trial that fails, so
// that trials cost an answer less and less.
constexpr std::uint64_t kEnterSpeculation = 64;
constexpr std::uint64_t kMaxEnterSpeculation = 1024;

// Where draft and target take turns, an answer begins with so many tokens of the target alone: what
// they take is what drafting is compared with, as it costs nothing to find out.
constexpr std::uint64_t kPlainFirst = 5;
// The assumed chance for which a token of a round is drafted, until a step of the draft is
// measured.
constexpr double kSureEnough = 0.5;

// The draft's runners-up. Left when they brought a round after less than this share of the
// verdicts, over kFanOutTrial of weight: then their rows are worth more elsewhere in the tree.
constexpr double kLeaveFanOut = 0.02;
constexpr double kFanOutTrial = 24;
// Entered again after this many tokens.
constexpr std::uint64_t kEnterFanOut = 256;
constexpr double kKeepFanOut = 0.97;  // of older verdicts' weight, per verdict: about thirty count

// Patience: this many times what a round takes on average, and at least so much more. Raised and
// lowered when it is off by this factor, as each change is a message.
constexpr double kPatienceSlack = 1.5;
constexpr Duration kMinSlack = std::chrono::milliseconds(3);
constexpr double kPatienceStep = 1.5;

void set_if_empty(std::string& text, std::string other) {
  if (text.empty()) text = std::move(other);
}

}  // namespace

std::optional<double> Controller::Pace::per_token() const {
  if (tokens <= 0) return std::nullopt;
  return seconds / tokens;
}

// Second choices are guesses for what is drafted ahead.
Controller::Controller(Optimize goal, int max_gamma, int max_fan_out, bool takes_turns)
    : goal_(goal),
      max_gamma_(max_gamma),
      max_fan_out_(takes_turns ? 1 : max_fan_out),
      takes_turns_(takes_turns),
      runners_up_(kKeepFanOut),
      probe_after_(kEnterSpeculation) {
  plan_.fan_out = max_fan_out_;
  plan_.gamma = max_gamma_;
  plan_.wait_for = max_gamma_;
  plan_.reason = "nothing is measured yet";
  plan_.policy.wants_exits = goal_ == Optimize::kCost;
  // A round drafted while the prompt is read is whole; after that nobody waits for what was not
  // measured.
  if (goal_ != Optimize::kCost) plan_.policy.pass_policy = PassPolicy::kEager;
  if (!takes_turns_ || goal_ == Optimize::kCost) return;
  plan_.speculates = false;
  plan_.least_chance = kSureEnough;
  probe_at_ = kPlainFirst;
  plan_.reason = "the target has the cores to itself first, to see what a token takes";
}

// A hit is the exits' as far as the draft itself did not expect it.
void Controller::on_lookup(const CacheLookup& found, bool exits_spoke, const Timings& timings) {
  const bool brings = found.drafted > 0 || found.in_step;
  exits_.on_round(!brings ? 0 : found.exit ? found.own_chance : 1);
  const double theirs = found.exit ? 1 - found.own_chance : 0;
  if (exits_spoke) exits_.on_verdict(theirs * share_of_hit(found, timings, plan_.wait_for));
  if (plan_.fan_out > 1) runners_up_.add(brings && found.runner_up ? 1 : 0);
}

void Controller::on_verdict(std::size_t tokens, const Drafted& drafted, TimePoint now) {
  if (drafted.depth > 0) acceptance_.record(drafted.depth, drafted.stood);
  tokens_ += tokens;
  if (last_verdict_) {
    Pace& pace = plan_.speculates ? with_ : without_;
    pace.seconds = pace.seconds * kKeepPace + to_seconds(now - *last_verdict_);
    pace.tokens = pace.tokens * kKeepPace + static_cast<double>(tokens);
    pace.weight = pace.weight * kKeepPace + 1;
    ++pace.verdicts;
  }
  last_verdict_ = now;
}

Duration Controller::per_token() const {
  return from_ms(pace().per_token().value_or(0) * 1e3);
}

const SpeculationPlan& Controller::plan(const Timings& timings) {
  if (goal_ == Optimize::kCost || !timings.knows_passes()) return plan_;
  const SpeculationPlan before = plan_;
  const bool begins =
      !takes_turns_ && !begun_ && timings.draft_step.known() && with_.verdicts < kTrialVerdicts;
  std::string why = begins ? begin(timings) : switch_on_or_off(timings);
  std::string measured;
  if (plan_.speculates && timings.draft_step.known()) {
    const double pass = to_seconds(timings.pass_of(1, plan_.policy.wants_exits));
    double theta = with_.per_token().value_or(pass);
    if (goal_ == Optimize::kBalanced) theta += 0.5 * pass;
    const RoundWorth worth(acceptance_, timings, plan_.policy.wants_exits, theta);
    plan_rounds(worth);
    if (exits_in_time(timings)) {
      const bool had_exits = exits_.wanted();
      set_if_empty(why, exits_.decide(timings, worth.of_hit(plan_.gamma, plan_.wait_for), tokens_));
      if (had_exits && !exits_.wanted())
        with_ = {};  // longer passes are not compared with shorter ones
    }
    set_if_empty(why, choose_fan_out());
    measured = fmt::format(
        "a token takes {:.1f} ms, a draft step {:.1f} ms, the round trip {:.1f} ms, and the "
        "first guess stands in {:.0f} %",
        theta * 1e3, to_ms(timings.draft_step.of(1)), to_ms(timings.round_trip()),
        acceptance_.of(1) * 100);
  }
  set_policy(timings);
  if (!plan_.same_course(before)) set_if_empty(why, std::move(measured));
  if (!why.empty()) plan_.reason = std::move(why);
  return plan_;
}

void Controller::warm_start(const PairProfile& profile) {
  acceptance_.restore(profile.tried, profile.stood);
  // Cost has no time per token to compare: with it nothing is ever switched off, nor on again.
  if (profile.speculates || goal_ == Optimize::kCost) return;
  begun_ = true;
  probe_after_ = std::clamp(profile.probe_after, kEnterSpeculation, kMaxEnterSpeculation);
  plan_.speculates = false;
  probe_at_ = tokens_ + std::min(profile.probe_in, probe_after_);
  plan_.reason = "it did not pay when the last answer ended";
}

bool Controller::save_to(PairProfile& profile) const {
  profile.tried = acceptance_.tried();
  profile.stood = acceptance_.stood();
  if (profile.tried.empty()) return false;
  if (goal_ == Optimize::kCost) return true;
  profile.speculates = plan_.speculates;
  profile.probe_in = plan_.speculates || probe_at_ <= tokens_ ? 0 : probe_at_ - tokens_;
  profile.probe_after = probe_after_;
  return true;
}

std::string Controller::begin(const Timings& timings) {
  begun_ = timings.has_measured_round_trip();
  const Timings best = timings.at_best();
  const RoundWorth worth(acceptance_, best, false, to_seconds(best.pass_of(1, false)));
  std::string why = worth.why_hopeless(plan_.gamma);
  if (why.empty()) return why;
  begun_ = true;
  return switch_off(std::move(why));
}

// It is tried again later.
std::string Controller::switch_off(std::string reason) {
  plan_.speculates = false;
  probe_at_ = tokens_ + probe_after_;
  probe_after_ = std::min(2 * probe_after_, kMaxEnterSpeculation);
  last_verdict_.reset();
  return reason;
}

void Controller::plan_rounds(const RoundWorth& worth) {
  if (takes_turns_) {  // every round is waited for, and ends by the draft's own confidence
    plan_.least_chance = worth.least_chance_in_turn();
    return;
  }
  plan_.gamma = worth.best_length(max_gamma_);
  plan_.least_chance = worth.least_chance();
  plan_.wait_for = worth.best_wait(plan_.gamma);
}

std::string Controller::switch_on_or_off(const Timings& timings) {
  if (!plan_.speculates) {
    if (tokens_ < probe_at_) return {};
    plan_.speculates = true;
    with_ = {};
    last_verdict_.reset();
    return "to see whether it pays by now";
  }
  const std::optional<double> with = with_.per_token();
  if (!with || with_.verdicts < kTrialVerdicts) return {};
  const double without = without_.per_token().value_or(to_seconds(timings.pass_of(1, false)));
  if (*with <= without * kLeaveSpeculation) {
    probe_after_ = kEnterSpeculation;
    return {};
  }
  if (std::string why = drop_exits(*with, without); !why.empty()) return why;
  without_ = {};
  return switch_off(fmt::format("a token takes {:.1f} ms with the draft and {:.1f} ms without",
                                *with * 1e3, without * 1e3));
}

// Speculation loses, but would not if its passes were as short as those without exits.
std::string Controller::drop_exits(double with, double without) {
  if (!exits_.wanted() || !exits_.cost()) return {};
  const double tokens_per_pass = with_.tokens / with_.weight;
  if (with - *exits_.cost() / tokens_per_pass > without * kLeaveSpeculation) return {};
  exits_.drop(tokens_);
  with_ = {};
  last_verdict_.reset();
  return fmt::format(
      "a token takes {:.1f} ms with draft and exits and {:.1f} ms without, and the exits cost "
      "{:.1f} ms a pass",
      with * 1e3, without * 1e3, *exits_.cost() * 1e3);
}

std::string Controller::choose_fan_out() {
  if (plan_.fan_out > 1) {
    if (runners_up_.weight() < kFanOutTrial || runners_up_.mean() >= kLeaveFanOut) return {};
    plan_.fan_out = 1;
    fan_out_at_ = tokens_ + kEnterFanOut;
    return fmt::format("the draft's second choices brought a round after {:.1f} % of the verdicts",
                       runners_up_.mean() * 100);
  }
  if (max_fan_out_ == 1 || tokens_ < fan_out_at_) return {};
  plan_.fan_out = max_fan_out_;
  runners_up_.clear();
  return "to see whether the draft's second choices come by now";
}

// A round that an exit made likely reaches the target a round trip after the exit spoke: later than
// the end of its pass if that is shorter, and then nobody waits for it unless it was agreed.
bool Controller::exits_in_time(const Timings& timings) const {
  if (takes_turns_) return false;  // nothing is drafted while a pass runs
  return plan_.wait_for > 0 || timings.round_trip() < timings.pass_of(1, false);
}

void Controller::set_policy(const Timings& timings) {
  Policy& policy = plan_.policy;
  policy.wants_exits = plan_.speculates && exits_.wanted() && exits_in_time(timings);
  policy.row_limit = plan_.speculates ? static_cast<std::uint32_t>(max_gamma_) : 0;
  if (takes_turns_) {
    policy.pass_policy = plan_.speculates ? PassPolicy::kOnRequest : PassPolicy::kEager;
  }
  if (!plan_.speculates || plan_.wait_for == 0 || takes_turns_) {
    policy.patience = Duration{0};
    return;
  }
  const Duration round = timings.round_trip() + plan_.wait_for * timings.draft_step.of(1);
  const Duration slack = std::max(from_ms(to_ms(round) * kPatienceSlack), round + kMinSlack);
  const Duration wanted = std::min(slack, kMaxPatience);
  const double ratio = to_ms(wanted) / std::max(to_ms(policy.patience), 1e-3);
  if (ratio > kPatienceStep || ratio < 1 / kPatienceStep) policy.patience = wanted;
}

}  // namespace outrider
