// SPDX-License-Identifier: Apache-2.0
#include "common/verify/session.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "common/tree/row_budget.h"
#include "common/verify/target.h"

namespace outrider {

void SessionBook::add_pass(std::size_t nodes, std::size_t accepted, Duration computed,
                           TimePoint now) {
  if (last_verdict_) {
    last_gap_ = now - *last_verdict_;
    recent_tokens_ = recent_tokens_ * kKeepRate + static_cast<double>(accepted + 1);
    recent_seconds_ = recent_seconds_ * kKeepRate + to_seconds(*last_gap_);
  } else {
    to_first_token_ = now - opened_;
    prefill_ = computed;
  }
  last_verdict_ = now;
  if (nodes == 0) return;
  ++draft_.rounds;
  draft_.tokens += nodes;
  const std::size_t deep = std::min(accepted, nodes);
  draft_.accepted += deep;
  if (draft_.accepted_at.size() < deep) draft_.accepted_at.resize(deep);
  for (std::size_t i = 0; i < deep; ++i) ++draft_.accepted_at[i];
}

double SessionBook::tokens_per_s(TimePoint now) const {
  if (recent_tokens_ == 0) return 0;
  const double seconds = recent_seconds_ + to_seconds(now - *last_verdict_);
  return seconds > 0 ? recent_tokens_ / seconds : 0;
}

SessionRecord SessionBook::record(const Usage& usage, TimePoint now) const {
  return {.session_id = {},
          .tenant = {},
          .request_id = {},
          .reason = usage.reason,
          .usage = usage,
          .draft = draft_,
          .lasted = now - opened_,
          .to_first_token = to_first_token_,
          .prefill = prefill_,
          .queued = queued_};
}

VerifySession::VerifySession(const Open& open, const Target& target, Setup setup, TimePoint now)
    : open_(open),
      limits_(target.limits),
      setup_(std::move(setup)),
      prefix_end_(static_cast<Position>(open.prefix.size())),
      end_rule_(make_end_rule(open, target)),
      tree_(std::exchange(open_.prefix, {})),
      policy_(open.policy),
      cached_end_(setup_.cached),
      acked_(prefix_end_),
      idle_since_(now),
      policy_since_(now),
      resumed_at_(now),
      book_(now) {
  OUTRIDER_CHECK(cached_end_ >= 0 && cached_end_ < prefix_end_);
  OUTRIDER_CHECK(setup_.prefill_chunk >= 1 && limits_.max_rows >= 1);
  usage_.prompt_tokens = static_cast<std::uint64_t>(prefix_end_);
  usage_.cached_tokens = static_cast<std::uint64_t>(cached_end_);
  messages_.emplace_back(Opened{.session_id = setup_.session_id,
                                .fingerprint = target.model.fingerprint,
                                .arithmetic_id = target.model.arithmetic_id,
                                .model_name = target.model.name,
                                .stop_ids = end_rule_.stop_ids,
                                .exits = target.exits,
                                .limits = target.limits});
}

Status VerifySession::on_message(const EdgeMessage& message, TimePoint now) {
  OUTRIDER_CHECK(!plan_.has_value());
  if (finished_) return {};
  OUTRIDER_RETURN_IF_ERROR(acknowledge(message, now));
  Status status;
  if (const auto* grow = std::get_if<Grow>(&message.body)) status = on_grow(*grow);
  if (const auto* policy = std::get_if<Policy>(&message.body)) status = on_policy(*policy, now);
  if (std::holds_alternative<Cancel>(message.body)) finish_with(FinishReason::kCancelled);
  if (std::holds_alternative<Open>(message.body)) {
    status = failed_precondition("Open: a second one in this stream; open a new stream instead");
  }
  if (std::holds_alternative<Prefix>(message.body)) {
    status = failed_precondition("Prefix: this stream's prefix is complete");
  }
  note_requests(now);
  return status;
}

Status VerifySession::acknowledge(const EdgeMessage& message, TimePoint now) {
  if (message.acked_position > tree_.end()) {
    return failed_precondition("acked_position: " + std::to_string(message.acked_position) +
                               " lies beyond the committed text; its end is " +
                               std::to_string(tree_.end()));
  }
  if (message.acked_position < 0) {
    return invalid_argument("acked_position: " + std::to_string(message.acked_position) +
                            "; expected 0 to " + std::to_string(tree_.end()));
  }
  if (message.acked_position > acked_) ++progress_;
  const bool was_paused = paused();
  acked_ = std::max(acked_, message.acked_position);
  if (was_paused && !paused()) resumed_at_ = now;
  return {};
}

Status VerifySession::on_grow(const Grow& grow) {
  OUTRIDER_ASSIGN_OR_RETURN(
      const Received received,
      tree_.receive(grow, {.vocab_size = limits_.vocab_size, .max_nodes = limits_.max_nodes}));
  usage_.dead_on_arrival += received.dead;
  // An anchor below the end is stale; the tree refuses one beyond it.
  if (grow.nodes.empty() && asked_at_ < grow.anchor_position) {
    ++progress_;
    asked_at_ = grow.anchor_position;
  }
  if (received.living > 0) ++progress_;
  return {};
}

Status VerifySession::on_policy(const Policy& policy, TimePoint now) {
  OUTRIDER_RETURN_IF_ERROR(check_policy(policy));
  policy_ = policy;
  policy_since_ = now;
  return {};
}

bool VerifySession::paused() const {
  return tree_.end() - acked_ >= static_cast<Position>(limits_.run_ahead);
}

void VerifySession::note_requests(TimePoint now) {
  const bool asks = !tree_.children(kRoot).empty() || asked_at_ == tree_.end();
  if (!asks) asked_since_.reset();
  if (asks && !asked_since_) asked_since_ = now;
}

std::optional<TimePoint> VerifySession::runnable_at() const {
  if (finished_ || plan_) return std::nullopt;
  if (next_pass_ == 0) return idle_since_;  // the prefill waits for nobody
  if (paused()) return std::nullopt;
  std::optional<TimePoint> at;
  if (asked_since_) at = std::max(*asked_since_, resumed_at_);
  if (policy_.pass_policy == PassPolicy::kEager) {
    const TimePoint out_of_patience =
        std::max(std::max(idle_since_, policy_since_) + policy_.patience, resumed_at_);
    at = at ? std::min(*at, out_of_patience) : out_of_patience;
  }
  return at;
}

void VerifySession::keep_cached(Position cached) {
  OUTRIDER_CHECK(!plan_.has_value() && cached < tree_.end());
  if (next_pass_ == 0 && cached > cached_end_) {
    const auto found = static_cast<std::uint64_t>(cached - cached_end_);
    usage_.cached_tokens = std::min(usage_.cached_tokens + found, usage_.prompt_tokens - 1);
  }
  cached_end_ = cached;
}

std::size_t VerifySession::chunk_of(std::size_t most_tokens) const {
  return std::min({missing(), std::size_t{setup_.prefill_chunk}, most_tokens});
}

std::size_t VerifySession::node_budget() const {
  const std::size_t budget = limits_.max_rows - 1;
  return policy_.row_limit > 0 ? std::min<std::size_t>(budget, policy_.row_limit) : budget;
}

std::size_t VerifySession::rows_at_most(const PassBounds& bounds) const {
  const std::size_t chunk = chunk_of(bounds.tokens);
  if (chunk < missing()) return chunk;
  return chunk + std::min({node_budget(), bounds.nodes, tree_.size()});
}

std::vector<float> VerifySession::chances(const PassBounds& bounds) const {
  std::vector<float> chances;
  if (tree_.size() == 0 || chunk_of(bounds.tokens) < missing()) return chances;
  for (const RankedNode& node : rank_nodes(tree_, last_node_position(), [this](float stated) {
         return stated_.right(0, stated);
       })) {
    if (chances.size() == std::min(node_budget(), bounds.nodes)) break;
    chances.push_back(node.chance);
  }
  return chances;
}

PassPlan VerifySession::start(TimePoint now, const PassBounds& bounds) {
  const std::optional<TimePoint> wanted = runnable_at();
  OUTRIDER_CHECK(wanted && *wanted <= now && bounds.tokens > 0);
  timings_.waited += *wanted - idle_since_;
  timings_.queued += now - *wanted;
  book_.add_queued(now - *wanted);

  PassPlan plan;
  plan.queued = now - *wanted;
  plan.position = cached_end_;
  const std::size_t chunk = chunk_of(bounds.tokens);
  const auto tokens = tree_.text().subspan(static_cast<std::size_t>(cached_end_), chunk);
  plan.tokens.assign(tokens.begin(), tokens.end());
  plan.decides = chunk == missing();
  plan.exits = plan.decides && policy_.wants_exits;
  plan.pass = next_pass_;
  if (plan.decides) take_nodes(plan, std::min(node_budget(), bounds.nodes));
  pass_rows_ += static_cast<std::uint32_t>(plan.rows());
  plan_ = plan;
  return plan;
}

void VerifySession::take_nodes(PassPlan& plan, std::size_t most_nodes) {
  const Selection selection =
      select_nodes(tree_, most_nodes, last_node_position(),
                   [this](float stated) { return stated_.right(0, stated); });
  std::unordered_map<NodeIndex, std::int32_t> row_of{{kRoot, -1}};
  for (const NodeIndex index : selection.taken) {
    const TreeNode& node = tree_.node(index);
    row_of[index] = static_cast<std::int32_t>(plan.nodes.size());
    plan.nodes.push_back({.token = node.token,
                          .parent = row_of.at(node.parent),
                          .id = node.id,
                          .confidence = node.confidence});
  }
  messages_.emplace_back(Started{.pass = next_pass_,
                                 .position = tree_.end(),
                                 .last_id = tree_.ids().last_id(),
                                 .left_out = selection.left_out});
}

void VerifySession::end_node(std::int32_t node) {
  OUTRIDER_CHECK(plan_.has_value());
  plan_->nodes.at(static_cast<std::size_t>(node)).ended = true;
  ++usage_.rows_pruned;
}

std::int32_t VerifySession::finish(const Chooser& choose, const RiderTimes& times, TimePoint now) {
  OUTRIDER_CHECK(plan_.has_value());
  timings_.computed += times.took;
  usage_.compute += times.share;
  batch_rows_ += times.rows;
  cached_end_ += static_cast<Position>(plan_->tokens.size());
  if (!plan_->decides) {
    plan_.reset();
    idle_since_ = now;
    messages_.emplace_back(Progress{.done = cached_end_, .total = tree_.end()});
    return -1;
  }
  Verdict verdict{.pass = next_pass_++,
                  .position = tree_.end(),
                  .tokens = {},
                  .rows = std::exchange(pass_rows_, 0),
                  .timings = std::exchange(timings_, {}),
                  .batch_rows = std::exchange(batch_rows_, 0)};
  if (verdict.batch_rows <= verdict.rows) verdict.batch_rows = 0;
  PassWalk walked = walk(*plan_, choose);
  judge_confidences(*plan_, walked);
  verdict.tokens = std::move(walked.tokens);
  book_.add_pass(plan_->nodes.size(), verdict.tokens.size() - 1, usage_.compute, now);
  plan_.reset();
  tree_.commit(verdict.tokens);
  cached_end_ = tree_.end() - 1;  // every token but the last was a node
  idle_since_ = now;
  asked_since_.reset();
  note_requests(now);

  ++usage_.passes;
  usage_.rows += verdict.rows;
  usage_.completion_tokens += verdict.tokens.size();
  const TokenId last = verdict.tokens.back();
  messages_.emplace_back(std::move(verdict));
  if (end_rule_.ends_at(last, tree_.end() - 1)) {
    finish_with(end_rule_.stops(last) ? FinishReason::kStop : FinishReason::kLength);
  }
  return walked.leaf;
}

// Of the nodes whose parent the walk came to, which it went on to.
void VerifySession::judge_confidences(const PassPlan& plan, const PassWalk& walked) {
  std::int32_t at = -1;
  for (const TokenId token : walked.tokens) {
    std::int32_t next = -1;
    for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
      const PassPlan::NodeRow& node = plan.nodes[i];
      if (node.ended || node.parent != at) continue;
      stated_.observe(0, node.confidence, node.token == token);
      if (node.token == token) next = static_cast<std::int32_t>(i);
    }
    if (next < 0) return;
    at = next;
  }
}

void VerifySession::finish_with(FinishReason reason) {
  finished_ = true;
  usage_.reason = reason;
  messages_.emplace_back(usage_);
}

}  // namespace outrider
