// The session's drafting: what to draft while the verifier waits and while it works, and what of
// it to send when. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "edge_client/session/decoding_session.h"

namespace outrider {
namespace {

// What does not leave this long before the last moment may come too late.
constexpr Duration kSendSlack = std::chrono::milliseconds(1);

// Living nodes at the verifier that more than one round may make.
constexpr std::size_t kMaxAhead = 96;

// How much more a draft step is worth than its own time if it spares the verifier a wait.
constexpr double kMinSaves = 0.5;
constexpr double kMaxSaves = 4;

}  // namespace

// As deep as a node can be of use to the next pass: its verdict ends with one token more.
Position DecodingSession::useful_depth() const {
  const Position to_end = end_position_ - drafter_.tree().end() - 1;
  return std::min({to_end, static_cast<Position>(opened_.limits.max_rows) - 1,
                   static_cast<Position>(opened_.limits.max_nodes)});
}

// So many of `length` drafted tokens can be of use to the next pass.
std::size_t DecodingSession::useful(int length) const {
  return static_cast<std::size_t>(
      std::clamp<Position>(useful_depth(), 0, static_cast<Position>(length)));
}

// Exits name corrections; the draft's own runners-up cost no row, but a place in the tree.
int DecodingSession::fan_out() const {
  return mirrors() ? controller_.current().fan_out : 1;
}

bool DecodingSession::drafts_ahead() const {
  if (options_.strategy == Strategy::kFsd) return !opened_.exits.empty();
  return mirrors();
}

// Without a round of ours, too.
bool DecodingSession::verifier_goes_on() const {
  return policy_.pass_policy == PassPolicy::kEager && policy_.patience == Duration{0};
}

void DecodingSession::follow_plan() {
  const SpeculationPlan before = controller_.current();
  const SpeculationPlan& plan = controller_.plan(timings_);
  if (plan.speculates != before.speculates) {
    say(Say::Level::kInfo, std::string("speculation: ") +
                               (plan.speculates ? "ON again " : "OFF, because ") + plan.reason);
  }
  if (!plan.same_course(before) || plan.reason != before.reason) {
    stats_.plan_changes.push_back({.token = answer_.size(),
                                   .speculates = plan.speculates,
                                   .gamma = plan.gamma,
                                   .wait_for = plan.wait_for,
                                   .patience = plan.policy.patience,
                                   .fan_out = plan.fan_out,
                                   .exits = plan.policy.wants_exits,
                                   .reason = plan.reason});
  }
  if (plan.policy != policy_) set_policy(plan.policy);
}

void DecodingSession::draft() {
  if (!drafting_ || !linked()) return;
  if (const std::optional<std::string> reason = drafter_.exhausted()) {
    return stop_drafting(*reason);
  }
  if (mirrors() && !controller_.current().speculates) return;
  if (!round_sent_) draft_round();
  if (round_sent_ && drafts_ahead()) draft_ahead();
}

// The verifier waits for this.
void DecodingSession::draft_round() {
  const int wait_for = mirrors() ? std::max(1, controller_.current().wait_for) : gamma();
  const std::size_t length = useful(wait_for);
  if (drafter_.round_length(length) == length) return send_round();
  const ChainPolicy chain(static_cast<int>(length), fan_out());
  if (std::optional<DraftStep> step = drafter_.grow(chain, useful_depth())) {
    actions_.emplace_back(RunDraftStep{*std::move(step)});
  } else if (!drafter_.step_is_out()) {
    send_round();  // as far as the draft can go
  }
}

// The verifier is at work, or has what it needs: draft for what its verdict may be.
void DecodingSession::draft_ahead() {
  const double step_ms = to_ms(timings_.draft_step.of(1));
  const double saves = step_ms > 0 ? to_ms(timings_.round_trip()) / step_ms : 0;
  const PredraftPolicy policy({.gamma = gamma(),
                               .fan_out = fan_out(),
                               .order = options_.queue,
                               .exits_only = options_.strategy == Strategy::kFsd,
                               .first_saves = std::clamp(saves, kMinSaves, kMaxSaves)});
  const Position to_end = end_position_ - drafter_.tree().end() - 1;
  std::optional<DraftStep> step = drafter_.grow(policy, to_end);
  if (mirrors()) send_ahead(drafter_.step_is_out());
  if (step) actions_.emplace_back(RunDraftStep{*std::move(step)});
}

// Rounds for verdicts that have not come. Messages that cross the verdict lose nothing: their nodes
// get the state that their path gives them.
void DecodingSession::send_ahead(bool draft_works) {
  if (phase_ != Phase::kStreaming) return;
  allowance_.advance(now_);
  // A server that is further than its last verdict tells is reached only by longer rounds.
  const Duration per_token = controller_.per_token();
  const auto lead =
      per_token > Duration{0} ? static_cast<std::size_t>(timings_.round_trip() / per_token) : 0;
  const auto whole = static_cast<std::size_t>(gamma());
  const Duration pass = timings_.pass_of(drafter_.rows_in_flight() + 1, policy_.wants_exits);
  const TimePoint last_moment = pass_origin_ + pass - kSendSlack;
  const bool due =
      !draft_works || (timings_.knows_passes() && now_ + timings_.draft_step.of(1) >= last_moment);
  const std::size_t living = drafter_.tree().ids().living().size();
  const std::size_t most = std::min<std::size_t>(opened_.limits.max_nodes, kMaxAhead);
  const SendingLimits limits{.whole = whole,
                             .least = options_.optimize == Optimize::kCost ? whole : 1,
                             .due = due,
                             .room = most - std::min(most, living),
                             .link_room = uplink_.room()};
  const std::vector<DraftedRound> rounds =
      drafter_.rounds_ahead(whole + std::min<std::size_t>(lead, 2 * whole), token_bound());
  const std::vector<NodeIndex> nodes = nodes_to_send(rounds, limits, allowance_);
  if (nodes.empty()) return;
  allowance_.spend(nodes.size());
  stats_.predraft.ahead_nodes += nodes.size();
  send_nodes(drafter_.select(nodes));
}

std::int32_t DecodingSession::token_bound() const {
  if (opened_.limits.vocab_size <= 0) return options_.token_bound;
  return std::min(options_.token_bound, opened_.limits.vocab_size);
}

// The whole round in one message. Without nodes it still asks for a pass (liveness), except
// before pass 0, which the verifier starts by itself.
void DecodingSession::send_round() {
  Grow grow = drafter_.select_round(useful(gamma()), opened_.limits.max_nodes, token_bound());
  round_sent_ = true;
  pass_origin_ = now_;
  keeper_.round_left(now_);
  const bool idle = next_pass_ > 0;
  const bool nodes = !grow.nodes.empty();
  if (idle && (nodes || policy_.pass_policy == PassPolicy::kOnRequest)) {
    asked_at_ = now_;
    asked_id_ = drafter_.tree().ids().next_id() - 1;
  }
  if (nodes) {
    send_nodes(std::move(grow));
  } else if (idle) {
    send(std::move(grow));
  }
}

void DecodingSession::send_nodes(Grow grow) {
  const NodeId last_id = drafter_.tree().ids().next_id() - 1;
  uplink_.sent(last_id, ByteAllowance::cost(grow.nodes.size()), now_);
  send(std::move(grow));
}

}  // namespace outrider
