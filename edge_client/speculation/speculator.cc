// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/speculator.h"

#include <algorithm>
#include <utility>

#include "edge_client/speculation/speculation_notice.h"

namespace outrider {
namespace {

// The most living nodes at the verifier that rounds sent ahead may add up to.
constexpr std::size_t kMaxAhead = 96;

// Pass 0 reads the prompt: its time is not that of a round.
VerdictReview review_of(const Verdict& verdict, const VerifiedRound& round,
                        const CacheLookup& found, bool exits_looked, TimePoint now) {
  return {.tokens = verdict.tokens.size(),
          .text = verdict.tokens,
          .pass = {.rows = verdict.pass > 0 ? static_cast<std::size_t>(verdict.rows) : 0,
                   .ms = to_ms(verdict.timings.computed)},
          .depth = round.depth(),
          .stood = round.accepted,
          .found = found,
          .exits_looked = exits_looked,
          .now = now};
}

// The verdict's tokens, if the exit is right.
std::vector<TokenId> outcome_of(const MirroredTree& tree, const ExitAdvice& advice) {
  std::vector<TokenId> tokens;
  for (NodeIndex at = advice.leaf; at != kRoot; at = tree.node(at).parent) {
    tokens.push_back(tree.node(at).token);
  }
  std::ranges::reverse(tokens);
  tokens.insert(tokens.end(), advice.path.begin(), advice.path.end());
  tokens.push_back(advice.token);
  return tokens;
}

}  // namespace

Speculator::Speculator(const SpeculatorOptions& options, Drafter& drafter,
                       const ObserverList& observers)
    : options_(options),
      drafter_(drafter),
      observers_(observers),
      strategy_(make_strategy(options.first, options.memory)),
      memory_(options.memory ? options.memory : std::make_shared<AnswerMemory>()),
      allowance_(options.first.uplink_budget),
      policy_(strategy_->pass_policy()),
      bounds_{.end_position = options.end_position, .token_bound = options.token_bound} {}

// --- commit -------------------------------------------------------------------------------------

Speculator::Committed Speculator::commit(const Verdict& verdict, const VerifiedRound& round,
                                         TimePoint now, SpeculationActions& out) {
  Committed committed{.request_round_trip = passes_.on_verdict(verdict.timings)};
  if (committed.request_round_trip) timings_.on_request_served(*committed.request_round_trip);
  const std::optional<bool> exits = passes_.has_exits();
  if (verdict.pass > 0 && exits) {  // pass 0 reads the prompt
    timings_.on_pass(verdict.rows, verdict.batch_rows, *exits, verdict.timings.computed);
  }
  answer_tokens_ += verdict.tokens.size();
  const CacheLookup found = drafter_.look_up(verdict.tokens, strategy_->round().bounds());
  review_ = review_of(verdict, round, found, exits.value_or(false), now);
  exits_.on_verdict(verdict.tokens);
  committed.sent_unused = drafter_.commit(verdict.tokens);
  if (drafter_.step_is_obsolete()) out.emplace_back(AbandonDraftStep{});
  allowance_.on_committed(verdict.tokens.size());
  return committed;
}

void Speculator::on_answer_continues(TimePoint now, SpeculationActions& out) {
  const bool speculated = drafts() && strategy_->speculates();
  if (drafts()) review(now, out);
  if (speculated) record_lookup(now);
  // Nodes that still live are the next round: the verifier goes on with them by itself.
  const bool has_round = !drafter_.tree().ids().living().empty() || verifier_goes_on();
  passes_.on_next_round(has_round, timings_.round_trip(), now);
}

// The strategy learns from the verdict, and may change its course.
void Speculator::review(TimePoint now, SpeculationActions& out) {
  const bool before = strategy_->speculates();
  if (!std::exchange(course_begun_, true)) {
    memory_->told.begin(before, begins_without_.value_or("with this answer"), now);
  }
  std::optional<PlanChange> change = strategy_->on_verdict(review_, timings_);
  if (change) note_change(*std::move(change), before, now);
  if (std::optional<std::string> line = memory_->told.due(now)) {
    out.emplace_back(Say{Say::Level::kInfo, *std::move(line)});
  }
  if (const Policy policy = wanted_policy(); policy != policy_) set_policy(policy, now, out);
}

// The strategy's, within what the target allows.
Policy Speculator::wanted_policy() const {
  Policy policy = strategy_->pass_policy();
  const Duration most = bounds_.limits.max_patience;  // 0: the target does not say
  if (most > Duration{0}) policy.patience = std::min(policy.patience, most);
  return policy;
}

// before: whether it speculated until now.
void Speculator::note_change(PlanChange change, bool before, TimePoint now) {
  if (strategy_->speculates() != before) {
    memory_->told.on_change(!before, change.reason, now);
  }
  change.token = answer_tokens_;
  observers_.notify(&SessionObserver::on_plan_changed, change);
}

// For a verdict before which something could be drafted.
void Speculator::record_lookup(TimePoint now) {
  const std::size_t longest = bounds_.useful(strategy_->round(), drafter_.tree().end()).length;
  if (longest == 0) return;
  const CacheLookup& found = review_.found;
  const Duration late = uplink_.arrived_after_pass(found.sent_id, timings_.round_trip(), now);
  if (found.sent_id != 0) passes_.on_sent_before_verdict(found.sent_id, late);
  const std::size_t length = found.length(strategy_->usual_length(), longest);
  observers_.notify(&SessionObserver::on_cache_lookup, found, length, now);
}

// The verifier starts its next pass even without a round of ours.
bool Speculator::verifier_goes_on() const {
  return policy_.pass_policy == PassPolicy::kEager && policy_.patience == Duration{0};
}

// --- grow and select ----------------------------------------------------------------------------

void Speculator::check_draft(TimePoint now, SpeculationActions& out) {
  if (!drafts()) return;
  if (const std::optional<std::string> reason = drafter_.exhausted()) stop(*reason, now, out);
}

bool Speculator::wants(Purpose purpose) const {
  if (!drafts() || !stream_open_ || !strategy_->speculates()) return false;
  if (strategy_->takes_turns() && answer_tokens_ == 0) return false;
  return passes_.verifier_waits() == (purpose == Purpose::kNextPass);
}

Speculator::Growth Speculator::grow(Purpose purpose) {
  return purpose == Purpose::kNextPass ? grow_round() : grow_ahead();
}

std::optional<Grow> Speculator::select(Purpose purpose, const Growth& growth, TimePoint now) {
  if (!growth.ready) return std::nullopt;
  std::optional<Grow> grow =
      purpose == Purpose::kNextPass ? select_round(growth, now) : select_ahead(now);
  if (grow && !grow->nodes.empty()) {
    uplink_.on_sent(drafter_.tree().ids().last_id(), ByteAllowance::cost(grow->nodes.size()), now);
  }
  return grow;
}

// The verifier waits: draft until the round, be it a tree or chains, is whole.
Speculator::Growth Speculator::grow_round() {
  Growth growth;
  const Position end = drafter_.tree().end();
  if (RoundPlanner* const planner = strategy_->planner()) {
    const PlanLimits limits = bounds_.plan_limits(end);
    growth.plan = drafter_.plan(*planner, limits);
    if (growth.plan.expand.empty()) return growth;
    growth.step = drafter_.grow(PlannedGrowth(growth.plan, planner->fan_out()), limits.max_depth);
  } else {
    RoundShape awaited = strategy_->round();
    awaited.length = strategy_->wait_for();
    awaited = bounds_.useful(awaited, end);
    if (drafter_.round_is_whole(awaited)) return growth;
    growth.step = drafter_.grow(*strategy_->grow_round(awaited), bounds_.useful_depth(end));
  }
  growth.ready = !drafter_.step_is_out();  // else the draft can go no further
  return growth;
}

// The whole round in one message. Without nodes it still asks for a pass (liveness), except before
// pass 0, which the verifier starts by itself.
std::optional<Grow> Speculator::select_round(const Growth& growth, TimePoint now) {
  const Position end = drafter_.tree().end();
  RoundPlanner* const planner = strategy_->planner();
  Grow grow = planner != nullptr
                  ? drafter_.send_plan(growth.plan, *planner, bounds_.plan_limits(end))
                  : drafter_.nodes().send_round(bounds_.useful(strategy_->round(), end),
                                                bounds_.limits.max_nodes, bounds_.vocabulary());
  passes_.on_round_sent(now);
  observers_.notify(&SessionObserver::on_round_sent, now);
  const bool idle = passes_.past_first_pass();
  const bool nodes = !grow.nodes.empty();
  if (idle && (nodes || policy_.pass_policy == PassPolicy::kOnRequest)) {
    passes_.on_request(drafter_.tree().ids().last_id(), now);
  }
  if (!nodes && !idle) return std::nullopt;
  return grow;
}

// The verifier is at work, or has what it needs: draft for possible verdicts.
Speculator::Growth Speculator::grow_ahead() {
  const std::unique_ptr<GrowthPolicy> policy = strategy_->grow_ahead(timings_);
  if (policy == nullptr) return {.ready = false};
  return {.step = drafter_.grow(*policy, bounds_.tokens_to_end(drafter_.tree().end())),
          .ready = opened_};
}

// Rounds for verdicts that have not come. Messages that cross the verdict lose nothing: their nodes
// get the state that their path gives them.
std::optional<Grow> Speculator::select_ahead(TimePoint now) {
  const std::size_t most = std::min<std::size_t>(bounds_.limits.max_nodes, kMaxAhead);
  const std::optional<AheadSelection> selection =
      strategy_->select_ahead({.now = now,
                               .pass_origin = passes_.origin(),
                               .rows_in_flight = drafter_.nodes().rows_in_flight(),
                               .room = most - std::min(most, drafter_.tree().ids().living().size()),
                               .link_room = uplink_.room(),
                               .draft_works = drafter_.step_is_out()},
                              timings_);
  if (!selection) return std::nullopt;
  allowance_.advance(now);
  const std::vector<DraftedRound> rounds =
      drafter_.nodes().rounds_ahead(selection->round, bounds_.vocabulary());
  const std::vector<NodeIndex> nodes = nodes_to_send(rounds, selection->limits, allowance_);
  if (nodes.empty()) return std::nullopt;
  allowance_.spend(nodes.size());
  observers_.notify(&SessionObserver::on_sent_ahead, nodes.size());
  return drafter_.nodes().send(nodes);
}

// --- the stream ---------------------------------------------------------------------------------

void Speculator::on_stream_opening(SpeculationActions& out) {
  passes_ = PassTracker();
  exits_.on_pass_lost();
  uplink_.restart();
  stream_open_ = true;
  opened_ = false;
  policy_.patience = Duration{0};  // until the target has said how much it allows
  if (drafter_.step_is_obsolete()) out.emplace_back(AbandonDraftStep{});
}

void Speculator::on_opened(const Opened& opened, Duration took, Position end_position,
                           SpeculationActions& out) {
  opened_ = true;
  exit_layers_ = opened.exits;
  bounds_.limits = opened.limits;
  bounds_.end_position = end_position;
  timings_.on_opened(took);
  uplink_.on_opened();
  timings_.on_pass_costs(opened.pass_costs);
  strategy_->on_target(!opened.exits.empty());
  policy_.patience = wanted_policy().patience;
  if (policy_.patience > Duration{0}) out.emplace_back(policy_);
  if (answer_tokens_ == 0 && profiled_target_.empty()) warm_start(opened.fingerprint);
}

void Speculator::on_pass_started(const Started& started, TimePoint now) {
  drafter_.nodes().on_pass_started(started.last_id, started.left_out);
  timings_.on_round_trip_bounds(
      uplink_.on_pass_started(started.last_id, timings_.round_trip(), now));
  observers_.notify(&SessionObserver::on_pass_started, started,
                    passes_.on_started(started, policy_.wants_exits, timings_.round_trip(), now),
                    now);
}

bool Speculator::on_exit_report(ExitAdvice advice) {
  if (!drafts() || strategy_->grow_ahead(timings_) == nullptr) return false;
  if (options_.first.corrects_exits()) {
    advice.probability = exits_.hear(exit_layers_.at(static_cast<std::size_t>(advice.exit)),
                                     advice.probability, outcome_of(drafter_.tree(), advice));
  }
  drafter_.advise(advice);
  return true;
}

void Speculator::on_draft_step(const Result<DraftStepDone>& result, TimePoint now,
                               SpeculationActions& out) {
  if (!result.ok()) {
    draft_failed_ = true;
    drafter_.drop_step();
    if (drafts()) stop("the draft model failed: " + result.status().message(), now, out);
    return;
  }
  const std::size_t rows = result->slots.size();
  if (rows > 0 && !result->abandoned) timings_.draft_step.add(rows, result->compute);
  observers_.notify(&SessionObserver::on_draft_step, *result, now);
  drafter_.finish_step(*result);
}

void Speculator::set_policy(const Policy& policy, TimePoint now, SpeculationActions& out) {
  if (policy.wants_exits != policy_.wants_exits) passes_.on_exits_changed(now);
  policy_ = policy;
  if (stream_open_) out.emplace_back(policy_);
}

void Speculator::stop(const std::string& reason, TimePoint now, SpeculationActions& out) {
  const std::string from = answer_tokens_ == 0 ? "" : " from here";
  out.emplace_back(Say{Say::Level::kWarning, "speculation: OFF" + from + " because " + reason});
  ended_ = reason;
  strategy_ = std::make_unique<ArStrategy>();
  set_policy(strategy_->pass_policy(), now, out);
}

// --- two verifiers ------------------------------------------------------------------------------

void OtherVerifier::exchange(std::unique_ptr<SpeculationStrategy>& strategy, Timings& timings,
                             OnlineCalibration& exits, const SpeculatorOptions& options,
                             bool drafts) {
  if (strategy_ == nullptr || !drafts) {
    SpeculationOptions wanted = options.other.value_or(options.first);
    if (!drafts) wanted.strategy = Strategy::kAr;
    // The memory without other options belongs to the verifier with which the answer began.
    strategy_ = make_strategy(wanted, options.other ? options.memory : nullptr);
  }
  std::swap(strategy_, strategy);
  std::swap(timings_, timings);
  std::swap(exits_, exits);
  timings.draft_step = timings_.draft_step;  // the draft is the same
}

void Speculator::on_other_verifier(TimePoint now) {
  stream_open_ = false;
  const bool before = strategy_->speculates();
  other_.exchange(strategy_, timings_, exits_, options_, drafts());
  uses_first_ = !uses_first_;
  policy_ = strategy_->pass_policy();
  if (drafts() && strategy_->speculates() != before) {
    note_change({.speculates = !before, .reason = "it pays so with the other target"}, before, now);
  }
}

// --- what is learnt from answers ----------------------------------------------------------------

// The answer's first target has opened.
void Speculator::warm_start(const std::string& fingerprint) {
  profiled_target_ = fingerprint;
  uses_first_ = true;
  const auto found = options_.profiles.find(fingerprint);
  if (found == options_.profiles.end() || found->second.answers == 0) return;
  began_with_ = found->second;
  if (began_with_.step_ms > 0 && !timings_.draft_step.known()) {
    timings_.draft_step.add(1, from_ms(began_with_.step_ms));
  }
  exits_.restore(began_with_.exits);
  strategy_->warm_start(began_with_);
  if (strategy_->speculates()) return;
  begins_without_ = "it did not pay when the last answer ended";
  observers_.notify(&SessionObserver::on_plan_changed,
                    PlanChange{.speculates = false, .reason = *begins_without_});
}

std::optional<PairProfile> Speculator::profile() const {
  const SpeculationStrategy& strategy = uses_first_ ? *strategy_ : other_.strategy();
  const Timings& timings = uses_first_ ? timings_ : other_.timings();
  PairProfile profile = began_with_;
  if (!strategy.save_to(profile)) return std::nullopt;
  ++profile.answers;
  if (timings.draft_step.known()) profile.step_ms = to_ms(timings.draft_step.of(1));
  profile.rtt_ms = to_ms(timings.round_trip());
  profile.exits = (uses_first_ ? exits_ : other_.exits()).corrections();
  return profile;
}

}  // namespace outrider
