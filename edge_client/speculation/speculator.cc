// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/speculator.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// Living nodes at the verifier that more than one round may make.
constexpr std::size_t kMaxAhead = 96;

}  // namespace

Speculator::Speculator(const SpeculatorOptions& options, Drafter& drafter,
                       const ObserverList& observers)
    : options_(options),
      drafter_(drafter),
      observers_(observers),
      strategy_(make_strategy(options.strategy, options.rounds)),
      allowance_(options.uplink_budget),
      policy_(strategy_->pass_policy()),
      bounds_{.end_position = options.end_position, .token_bound = options.token_bound} {}

// --- events -------------------------------------------------------------------------------------

SpeculationActions Speculator::on_other_verifier() {
  SpeculationActions out;
  stream_open_ = false;
  const bool before = strategy_->speculates();
  other_.exchange(strategy_, timings_, options_, drafts());
  policy_ = strategy_->pass_policy();
  if (drafts() && strategy_->speculates() != before) {
    note_change({.speculates = !before, .reason = "it pays so with the other target"}, before, out);
  }
  return out;
}

void Speculator::on_stream_opening(SpeculationActions& out) {
  passes_ = PassTracker();
  uplink_.restart();
  stream_open_ = true;
  opened_ = false;
  if (drafter_.step_is_obsolete()) out.emplace_back(AbandonDraftStep{});
}

void Speculator::on_opened(const Opened& opened, Duration took, Position end_position) {
  opened_ = true;
  bounds_.limits = opened.limits;
  bounds_.end_position = end_position;
  timings_.on_opened(took);
  uplink_.on_opened();
  timings_.on_pass_costs(opened.pass_costs);
  strategy_->on_target(!opened.exits.empty());
  if (answer_tokens_ > 0) return;
  learning_.begin(options_.learnt, opened.fingerprint, *strategy_, timings_, observers_);
}

void Speculator::on_pass_started(const Started& started, TimePoint now) {
  drafter_.on_pass_started(started.last_id, started.left_out);
  timings_.on_round_trip_bounds(
      uplink_.on_pass_started(started.last_id, timings_.round_trip(), now));
  observers_.notify(&SessionObserver::on_pass_started, started,
                    passes_.on_started(started, policy_.wants_exits, timings_.round_trip(), now),
                    now);
}

bool Speculator::on_exit_report(const ExitAdvice& advice) {
  if (!drafts() || strategy_->grow_ahead(timings_) == nullptr) return false;
  drafter_.advise(advice);
  return true;
}

void Speculator::on_draft_step(const Result<DraftStepDone>& result, TimePoint now,
                               SpeculationActions& out) {
  if (!result.ok()) {
    draft_failed_ = true;
    if (drafts()) stop("the draft model failed: " + result.status().message(), now, out);
    return;
  }
  const std::size_t rows = result->slots.size();
  if (rows > 0 && !result->abandoned) timings_.draft_step.add(rows, result->compute);
  observers_.notify(&SessionObserver::on_draft_step, *result, now);
  drafter_.finish_step(*result);
}

Speculator::Committed Speculator::on_verdict(const Verdict& verdict, const VerifiedRound& round,
                                             TimePoint now, SpeculationActions& out) {
  Committed committed{.request_round_trip = passes_.on_verdict(verdict.timings)};
  if (committed.request_round_trip) timings_.on_request_served(*committed.request_round_trip);
  const std::optional<bool> exits = passes_.has_exits();
  if (verdict.pass > 0 && exits) {  // pass 0 reads the prompt
    RowTimes& times = *exits ? timings_.pass : timings_.plain_pass;
    times.add(verdict.rows, verdict.timings.computed);
  }
  answer_tokens_ += verdict.tokens.size();
  const CacheLookup found = drafter_.look_up(verdict.tokens, strategy_->round().bounds());
  review_ = review_of(verdict, round.depth(), found, exits.value_or(false), now);
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
  std::optional<PlanChange> change = strategy_->on_verdict(review_, timings_);
  if (change) note_change(*std::move(change), before, out);
  if (const Policy policy = strategy_->pass_policy(); policy != policy_) {
    set_policy(policy, now, out);
  }
}

// before: whether it speculated until now.
void Speculator::note_change(PlanChange change, bool before, SpeculationActions& out) {
  if (strategy_->speculates() != before) {
    const char* course = before ? "speculation: OFF, because " : "speculation: ON again ";
    out.emplace_back(Say{Say::Level::kInfo, course + change.reason});
  }
  change.token = answer_tokens_;
  observers_.notify(&SessionObserver::on_plan_changed, change);
}

// Of a verdict before which something could be drafted.
void Speculator::record_lookup(TimePoint now) {
  const std::size_t longest = bounds_.useful(strategy_->round(), drafter_.tree().end()).length;
  if (longest == 0) return;
  const CacheLookup& found = review_.found;
  const Duration late = uplink_.arrived_after_pass(found.sent_id, timings_.round_trip(), now);
  if (found.sent_id != 0) passes_.on_sent_before_verdict(found.sent_id, late);
  const std::size_t length = found.length(strategy_->usual_length(), longest);
  observers_.notify(&SessionObserver::on_cache_lookup, found, length, now);
}

// --- decisions ----------------------------------------------------------------------------------

void Speculator::decide(TimePoint now, SpeculationActions& out) {
  if (!drafts()) return;
  if (const std::optional<std::string> reason = drafter_.exhausted()) {
    return stop(*reason, now, out);
  }
  if (!stream_open_ || !strategy_->speculates()) return;
  if (passes_.verifier_waits()) draft_round(now, out);
  if (!passes_.verifier_waits()) draft_ahead(now, out);
}

void Speculator::draft_round(TimePoint now, SpeculationActions& out) {
  RoundMove move = next_move(*strategy_, drafter_, bounds_);
  if (move.step) out.emplace_back(RunDraftStep{*std::move(move.step)});
  if (move.round) send_round(*std::move(move.round), now, out);
}

// The whole round in one message. Without nodes it still asks for a pass (liveness), except
// before pass 0, which the verifier starts by itself.
void Speculator::send_round(Grow grow, TimePoint now, SpeculationActions& out) {
  passes_.on_round_sent(now);
  observers_.notify(&SessionObserver::on_round_sent, now);
  const bool idle = passes_.past_first_pass();
  const bool nodes = !grow.nodes.empty();
  if (idle && (nodes || policy_.pass_policy == PassPolicy::kOnRequest)) {
    passes_.on_request(drafter_.tree().ids().last_id(), now);
  }
  if (nodes) {
    send_nodes(std::move(grow), now, out);
  } else if (idle) {
    out.emplace_back(std::move(grow));
  }
}

// The verifier is at work, or has what it needs: draft for what its verdict may be.
void Speculator::draft_ahead(TimePoint now, SpeculationActions& out) {
  const std::unique_ptr<GrowthPolicy> growth = strategy_->grow_ahead(timings_);
  if (growth == nullptr) return;
  std::optional<DraftStep> step =
      drafter_.grow(*growth, bounds_.tokens_to_end(drafter_.tree().end()));
  if (opened_) send_ahead(now, out);
  if (step) out.emplace_back(RunDraftStep{*std::move(step)});
}

// Rounds for verdicts that have not come. Messages that cross the verdict lose nothing: their nodes
// get the state that their path gives them.
void Speculator::send_ahead(TimePoint now, SpeculationActions& out) {
  const std::size_t most = std::min<std::size_t>(bounds_.limits.max_nodes, kMaxAhead);
  const std::optional<AheadSelection> selection =
      strategy_->select_ahead({.now = now,
                               .pass_origin = passes_.origin(),
                               .rows_in_flight = drafter_.rows_in_flight(),
                               .room = most - std::min(most, drafter_.tree().ids().living().size()),
                               .link_room = uplink_.room(),
                               .draft_works = drafter_.step_is_out()},
                              timings_);
  if (!selection) return;
  allowance_.advance(now);
  const std::vector<DraftedRound> rounds =
      drafter_.rounds_ahead(selection->round, bounds_.vocabulary());
  const std::vector<NodeIndex> nodes = nodes_to_send(rounds, selection->limits, allowance_);
  if (nodes.empty()) return;
  allowance_.spend(nodes.size());
  observers_.notify(&SessionObserver::on_sent_ahead, nodes.size());
  send_nodes(drafter_.select(nodes), now, out);
}

void Speculator::send_nodes(Grow grow, TimePoint now, SpeculationActions& out) {
  uplink_.on_sent(drafter_.tree().ids().last_id(), ByteAllowance::cost(grow.nodes.size()), now);
  out.emplace_back(std::move(grow));
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

// --- what is of use -----------------------------------------------------------------------------

// The verifier starts its next pass even without a round of ours.
bool Speculator::verifier_goes_on() const {
  return policy_.pass_policy == PassPolicy::kEager && policy_.patience == Duration{0};
}

}  // namespace outrider
