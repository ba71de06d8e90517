// What the session decides: drafting, sending, committing, ending. What it hears from its
// verifier is in decoding_stream.cc. SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/decoding_session.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// After the answer is decided, how long to wait for the verifier's own count of it.
constexpr Duration kFarewell = std::chrono::milliseconds(500);

// The share of the verifier's run-ahead after which an edge that has nothing else to send
// acknowledges: it must never be the reason for a pause.
constexpr std::uint32_t kAcksPerRunAhead = 8;

// Beyond a round trip, until a change of policy has surely been heard.
constexpr Duration kCrossingSlack = std::chrono::milliseconds(1);

Policy first_policy(Strategy strategy) {
  return {.pass_policy = strategy == Strategy::kAr ? PassPolicy::kEager : PassPolicy::kOnRequest,
          .wants_exits = strategy == Strategy::kFsd};
}

}  // namespace

const char* name_of(Strategy strategy) {
  switch (strategy) {
    case Strategy::kAr:
      return "ar";
    case Strategy::kSd:
      return "sd";
    case Strategy::kFsd:
      return "fsd";
    case Strategy::kMirror:
      return "mirror";
  }
  return "ar";
}

DecodingSession::DecodingSession(DecodingOptions options, std::vector<TokenId> prompt,
                                 Drafter& drafter, AnswerText& text)
    : options_(std::move(options)),
      drafter_(drafter),
      text_(text),
      prompt_length_(static_cast<Position>(prompt.size())),
      end_position_(options_.end_position),
      drafting_(options_.strategy != Strategy::kAr),
      controller_(options_.optimize, options_.gamma, options_.fan_out),
      allowance_(options_.uplink_budget),
      policy_(mirrors() ? controller_.current().policy : first_policy(options_.strategy)),
      reconnector_(options_.reconnect_timeout, options_.jitter_seed) {
  OUTRIDER_CHECK(!prompt.empty());
  stats_.prompt_tokens = prompt.size();
  drafter_.restart(prompt);
  evicted_before_ = drafter_.evicted();
}

SessionActions DecodingSession::start(TimePoint now) {
  now_ = now;
  stats_.started = now;
  keeper_.started(now);
  if (end_position_ <= prompt_length_) {
    finish(Ending::kLength, {});
  } else {
    if (const auto reason = drafter_.exhausted(); drafting_ && reason) stop_drafting(*reason);
    open_stream();
    draft();
  }
  return std::exchange(actions_, {});
}

SessionActions DecodingSession::handle(const SessionEvent& event, TimePoint now) {
  now_ = now;
  if (phase_ != Phase::kFinished) {
    std::visit([this](const auto& e) { on(e); }, event);
    draft();
    acknowledge();
  }
  return std::exchange(actions_, {});
}

TimePoint DecodingSession::next_tick() const {
  TimePoint next = TimePoint::max();
  if (phase_ == Phase::kLeaving) next = leave_at_;
  if (phase_ == Phase::kUnlinked) next = retry_at_;
  if (phase_ == Phase::kUnlinked || phase_ == Phase::kOpening) {
    next = std::min(next, reconnector_.deadline().value_or(TimePoint::max()));
  }
  return next;
}

void DecodingSession::on(const Tick&) {
  if (phase_ == Phase::kLeaving) {
    if (now_ >= leave_at_) finish(ending_, {});
    return;
  }
  const bool waiting = phase_ == Phase::kUnlinked || phase_ == Phase::kOpening;
  const std::optional<TimePoint> deadline = reconnector_.deadline();
  if (waiting && deadline && now_ >= *deadline) {
    give_up(link_error_);
  } else if (phase_ == Phase::kUnlinked && now_ >= retry_at_) {
    open_stream();
  }
}

void DecodingSession::on(const CancelRequested&) {
  if (phase_ == Phase::kLeaving) return;
  if (!linked()) return finish(Ending::kCancelled, {});
  send(Cancel{});
  leave(Ending::kCancelled);
}

void DecodingSession::on(const DraftStepFinished& event) {
  if (!event.result.ok()) {
    draft_failed_ = true;
    if (drafting_) stop_drafting("the draft model failed: " + event.result.status().message());
    return;
  }
  const std::size_t rows = event.result->slots.size();
  const bool abandoned = event.result->abandoned;
  ++(abandoned ? stats_.predraft.abandoned_steps : stats_.draft_steps);
  if (rows > 0 && !abandoned) timings_.draft_step.add(rows, event.result->compute);
  if (options_.timeline != nullptr) {
    options_.timeline->span(Timeline::Track::kDraft,
                            rows == 0 ? "catch up" : "draft " + std::to_string(rows) + " rows",
                            now_ - event.result->compute, event.result->compute);
  }
  stats_.draft_compute += event.result->compute;
  drafter_.finish_step(*event.result);
}

void DecodingSession::stop_drafting(const std::string& reason) {
  drafting_ = false;
  speculation_ended_ = reason;
  say(Say::Level::kWarning,
      (answer_.empty() ? "speculation: OFF because " : "speculation: OFF from here because ") +
          reason);
  set_policy(first_policy(Strategy::kAr));
}

void DecodingSession::set_policy(const Policy& policy) {
  if (policy.wants_exits != policy_.wants_exits) exits_changed_at_ = now_;
  policy_ = policy;
  if (linked()) send(policy_);
}

// Whether exits look at the pass that was just heard to start. Where a change of that may have
// crossed its start, nobody knows.
std::optional<bool> DecodingSession::exits_of_pass() const {
  const Duration crossing = timings_.round_trip() * 5 / 4 + kCrossingSlack;
  if (exits_changed_at_ && now_ - *exits_changed_at_ < crossing) return std::nullopt;
  return policy_.wants_exits;
}

// The verdict has passed every check.
void DecodingSession::commit(const Verdict& verdict) {
  const Position depth = count(verdict);
  Emit emit;
  bool stopped = false;
  for (std::size_t i = 0; i < verdict.tokens.size() && !stopped; ++i) {
    AnswerText::Update update = text_.push(verdict.tokens[i]);
    stopped = update.stopped;
    answer_.push_back(verdict.tokens[i]);
    emit.tokens.push_back(
        {verdict.tokens[i], i + 1 < verdict.tokens.size(), std::move(update.text)});
  }
  stats_.completion_tokens = answer_.size();
  if (!stats_.first_token) stats_.first_token = now_;
  stats_.last_token = now_;
  trace_waits(keeper_.verdict(verdict.timings, timings_.round_trip(), now_));
  const CacheLookup found = drafter_.look_up(verdict.tokens);
  const bool speculated = drafting_ && (!mirrors() || controller_.current().speculates);
  trace_verdict(verdict);
  stats_.predraft.ahead_dead += drafter_.commit(verdict.tokens);
  stats_.predraft.evicted_nodes = drafter_.evicted() - evicted_before_;
  if (drafter_.step_is_obsolete()) actions_.emplace_back(AbandonDraftStep{});
  allowance_.committed(verdict.tokens.size());
  actions_.emplace_back(std::move(emit));

  if (stopped) {
    send(Cancel{});
    return leave(Ending::kStopString);
  }
  if (const std::optional<Ending> ending = natural_ending()) return leave(*ending);
  if (mirrors() && drafting_) {
    if (speculated) controller_.looked_up(found, pass_has_exits_.value_or(false));
    controller_.verdict(verdict.tokens.size(), static_cast<std::size_t>(depth), now_);
    follow_plan();
  }
  if (speculated) count_hit(found);
  // Nodes that still live are the next round: the verifier goes on with them by itself.
  round_sent_ = !drafter_.tree().ids().living().empty() || verifier_goes_on();
  pass_origin_ = now_ - timings_.round_trip();
}

// Of a verdict before which something could be drafted.
void DecodingSession::count_hit(const CacheLookup& found) {
  const std::size_t wanted = useful(gamma());
  if (wanted == 0) return;
  const CacheHit hit = stats_.predraft.count(found, wanted);
  ahead_id_ = found.sent_id;
  trace_hit(found, hit);
}

Position DecodingSession::count(const Verdict& verdict) {
  if (!stats_.first_token) {
    stats_.first_tokens = verdict.tokens.size();
    stats_.first_rows = verdict.rows;
    stats_.first_compute = verdict.timings.computed;
  }
  ++stats_.passes;
  stats_.rows += verdict.rows;
  stats_.target_compute += verdict.timings.computed;
  stats_.target_queued += verdict.timings.queued;
  if (asked_for_) {
    const Duration round_trip = *asked_for_ - verdict.timings.queued;
    if (round_trip > Duration::zero()) stats_.round_trips.push_back(round_trip);
    timings_.asked(round_trip);
  }
  asked_for_.reset();
  const MirroredTree& tree = drafter_.tree();
  std::uint64_t nodes = 0;
  Position depth = 0;
  for (const NodeIndex node : tree.nodes()) {
    const NodeId id = tree.node(node).id;
    if (id == 0 || !pass_took(*started_, id)) continue;
    ++nodes;
    depth = std::max(depth, depth_of(tree, node));
  }
  stats_.count_round(nodes, static_cast<std::size_t>(depth), verdict.tokens.size() - 1);
  if (verdict.pass > 0) {  // pass 0 reads the prompt
    if (pass_has_exits_) {
      RowTimes& times = *pass_has_exits_ ? timings_.pass : timings_.plain_pass;
      times.add(verdict.rows, verdict.timings.computed);
    }
    if (verdict.rows > nodes + 1) stats_.predraft.surplus_rows += verdict.rows - nodes - 1;
  }
  return depth;
}

// Whether the committed text ends the answer by itself.
std::optional<Ending> DecodingSession::natural_ending() const {
  if (answer_.empty()) return std::nullopt;
  if (std::ranges::find(opened_.stop_ids, answer_.back()) != opened_.stop_ids.end()) {
    return Ending::kStopToken;
  }
  if (drafter_.tree().end() < end_position_) return std::nullopt;
  return end_position_ < options_.end_position ? Ending::kContextFull : Ending::kLength;
}

void DecodingSession::acknowledge() {
  if (phase_ != Phase::kStreaming) return;
  const Position step = std::max<Position>(1, opened_.limits.run_ahead / kAcksPerRunAhead);
  if (drafter_.tree().end() - acked_ >= step) send(AckOnly{});
}

void DecodingSession::trace(Timeline::Track track, const std::string& what) {
  if (options_.timeline != nullptr) options_.timeline->mark(track, what, now_);
}

// The pass ended half a round trip before its verdict was heard.
void DecodingSession::trace_verdict(const Verdict& verdict) {
  if (options_.timeline == nullptr) return;
  const std::string pass = "pass " + std::to_string(verdict.pass);
  const TimePoint end = now_ - timings_.round_trip() / 2;
  const TimePoint begin = end - verdict.timings.computed;
  options_.timeline->span(Timeline::Track::kTarget,
                          pass + ", " + std::to_string(verdict.rows) + " rows", begin,
                          verdict.timings.computed);
  trace(Timeline::Track::kHeard,
        "verdict of " + pass + ": " + std::to_string(verdict.tokens.size()) + " tokens");
}

// The time since the verdict before, divided as --explain does, in the order of a round.
void DecodingSession::trace_waits(const TimeSpent& spent) {
  if (options_.timeline == nullptr) return;
  const std::pair<const char*, Duration> parts[] = {
      {"the first verdict", spent.first},
      {"the draft", spent.drafting},
      {"other", spent.other},
      {"the link, up", spent.link / 2},
      {"other sessions", spent.queued},
      {"the target", spent.target},
      {"the link, down", spent.link - spent.link / 2},
  };
  TimePoint begin = now_ - spent.total();
  for (const auto& [what, length] : parts) {
    if (length > Duration{0}) {
      options_.timeline->span(Timeline::Track::kWaits, what, begin, length);
    }
    begin += length;
  }
}

// As it is counted.
void DecodingSession::trace_hit(const CacheLookup& found, CacheHit hit) {
  if (options_.timeline == nullptr) return;
  const std::string who = found.exit ? ", named by " + stats_.predraft.exit_name(*found.exit)
                                     : ", the draft's own guess";
  const std::string length = std::to_string(found.drafted) + " tokens drafted ahead";
  switch (hit) {
    case CacheHit::kWhole:
      return trace(Timeline::Track::kAnswer, "hit: " + length + who);
    case CacheHit::kPartial:
      return trace(Timeline::Track::kAnswer, "partial hit: " + length + who);
    case CacheHit::kLate:
      return trace(Timeline::Track::kAnswer, "late hit: its first draft step runs" + who);
    case CacheHit::kMiss:
      return trace(Timeline::Track::kAnswer, "miss");
  }
}

void DecodingSession::send(decltype(EdgeMessage::body) body) {
  if (const auto* grow = std::get_if<Grow>(&body)) {
    trace(Timeline::Track::kSent, "Grow of " + std::to_string(grow->nodes.size()) + " nodes");
  } else if (std::holds_alternative<Policy>(body)) {
    trace(Timeline::Track::kSent, "Policy");
  }
  acked_ = drafter_.tree().end();
  actions_.emplace_back(Send{{acked_, reports_seen_, std::move(body)}});
}

void DecodingSession::say(Say::Level level, std::string line) {
  actions_.emplace_back(Say{level, std::move(line)});
}

// The answer is decided; the verifier's Usage would complete the figures.
void DecodingSession::leave(Ending ending) {
  phase_ = Phase::kLeaving;
  ending_ = ending;
  leave_at_ = now_ + kFarewell;
}

void DecodingSession::fail(const Status& status) {
  if (linked()) send(Cancel{});
  finish(Ending::kFailed, status);
}

void DecodingSession::finish(Ending ending, Status status) {
  phase_ = Phase::kFinished;
  if (ending != Ending::kStopString) {
    if (std::string rest = text_.finish(); !rest.empty()) {
      actions_.emplace_back(Emit{{{-1, false, std::move(rest)}}});
    }
  }
  actions_.emplace_back(Finish{ending, std::move(status)});
}

}  // namespace outrider
