// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/session/session.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "common/decoding/tree/row_budget.h"
#include "common/decoding/verify/session/target.h"

namespace outrider {
namespace {

// Log-probabilities of a prompt wait until they are so many, so that a long prompt has few
// messages.
constexpr std::uint64_t kScoredAtOnce = 4096;

// Verdict::server_nodes of the walk to this node.
std::uint64_t own_tokens(const PassPlan& plan, std::int32_t leaf) {
  std::vector<bool> own;  // from the leaf up
  while (leaf >= 0) {
    const PassPlan::NodeRow& node = plan.nodes[static_cast<std::size_t>(leaf)];
    own.push_back(node.id == 0);
    leaf = node.parent;
  }
  std::uint64_t tokens = 0;
  for (std::size_t i = 0; i < std::min(own.size(), kMarkedTokens); ++i) {
    if (own[own.size() - 1 - i]) tokens |= std::uint64_t{1} << i;
  }
  return tokens;
}

}  // namespace

void SessionRecorder::add_pass(const PassPlan& plan, std::size_t accepted, std::size_t own,
                               Duration computed, TimePoint now) {
  if (last_verdict_) {
    last_gap_ = now - *last_verdict_;
    recent_tokens_ = recent_tokens_ * kKeepRate + static_cast<double>(accepted + 1);
    recent_seconds_ = recent_seconds_ * kKeepRate + to_seconds(*last_gap_);
  } else {
    to_first_token_ = now - opened_;
    prefill_ = computed;
  }
  last_verdict_ = now;
  if (plan.nodes.empty()) return;
  ++draft_.rounds;
  draft_.tokens += plan.nodes.size();
  draft_.own_tokens +=
      static_cast<std::uint64_t>(std::ranges::count(plan.nodes, NodeId{0}, &PassPlan::NodeRow::id));
  draft_.own_accepted += own;
  const std::size_t deep = std::min(accepted, plan.nodes.size());
  draft_.accepted += deep;
  if (draft_.accepted_at.size() < deep) draft_.accepted_at.resize(deep);
  for (std::size_t i = 0; i < deep; ++i) ++draft_.accepted_at[i];
}

double SessionRecorder::tokens_per_s(TimePoint now) const {
  if (recent_tokens_ == 0) return 0;
  const double seconds = recent_seconds_ + to_seconds(now - *last_verdict_);
  return seconds > 0 ? recent_tokens_ / seconds : 0;
}

SessionRecord SessionRecorder::record(const Usage& usage, TimePoint now) const {
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
      adjuster_(open_.settings, open_.answer_begin > 0 ? open_.answer_begin : prefix_end_,
                end_rule_.stop_ids),
      policy_(open.policy),
      has_exits_(!target.exits.empty()),
      cached_end_(setup_.cached),
      scored_end_(open.prompt_logprobs ? 0 : prefix_end_ - 1),
      acked_(prefix_end_),
      idle_since_(now),
      policy_since_(now),
      resumed_at_(now),
      recorder_(now) {
  OUTRIDER_CHECK(cached_end_ >= 0 && cached_end_ < prefix_end_);
  OUTRIDER_CHECK(setup_.prefill_chunk >= 1 && limits_.max_rows >= 1);
  adjuster_.append(tree_.text());
  usage_.prompt_tokens = static_cast<std::uint64_t>(prefix_end_);
  usage_.cached_tokens = static_cast<std::uint64_t>(cached_end_);
  drafts_ = open_.accepts_server_nodes && target.draft_source != DraftSource::kNone;
  if (drafts_ && uses_lookup(target.draft_source)) look_up_.emplace(end_rule_.end_position);
  if (open_.accepts_server_nodes && target.drafts_forms && open_.settings.constraint.asks()) {
    form_draft_.emplace();
  }
  messages_.emplace_back(Opened{.session_id = setup_.session_id,
                                .fingerprint = target.model.fingerprint,
                                .arithmetic_id = target.model.arithmetic_id,
                                .model_name = target.model.name,
                                .stop_ids = end_rule_.stop_ids,
                                .exits = target.exits,
                                .limits = target.limits,
                                .server_drafts = drafts_ || form_draft_,
                                .dtype = target.model.dtype,
                                .kv_dtype = target.model.kv_dtype,
                                .level = target.level});
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
  const bool has_nodes = std::ranges::any_of(
      tree_.children(kRoot), [this](NodeIndex child) { return tree_.node(child).id != 0; });
  const bool asks = has_nodes || asked_at_ == tree_.end();
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

// A scored row costs what a row of a verifying pass does, so a chunk has no more of them.
std::size_t VerifySession::chunk_of(std::size_t most_tokens) const {
  const std::size_t most = is_scoring() ? limits_.max_rows : PassBounds::kAny;
  return std::min({missing(), std::size_t{setup_.prefill_chunk}, most_tokens, most});
}

// The stated confidence of an edge's node counts as far as such statements were true before; that
// of an own node counts in full.
RowBudget VerifySession::row_budget(std::size_t most_nodes) const {
  RowBudget budget{.nodes = std::min<std::size_t>(limits_.max_rows - 1, most_nodes),
                   .last_position = last_node_position(),
                   .calibrate = [this](const TreeNode& node) {
                     return node.id == 0 ? node.confidence : stated_.right(0, node.confidence);
                   }};
  if (policy_.row_limit > 0) budget.sent = policy_.row_limit;
  return budget;
}

void VerifySession::draft_without_model(double least_chance, const MatchFinder* shared) {
  OUTRIDER_CHECK(!plan_.has_value());
  if (finished_ || is_prefilling()) return;
  const RowBudget budget = row_budget(PassBounds::kAny);
  if (form_draft_) form_draft_->grow(tree_, adjuster_, budget, least_chance);
  if (look_up_) look_up_->grow(tree_, budget, least_chance, shared);
}

bool VerifySession::may_draft() const {
  return drafts_ && !finished_ && !plan_ && !is_prefilling();
}

NodeIndex VerifySession::add_own(NodeIndex parent, const Guess& guess) {
  OUTRIDER_CHECK(!plan_.has_value() && drafts_);
  const Position position = parent == kRoot ? tree_.end() : tree_.node(parent).position + 1;
  const bool known = guess.token >= 0 && guess.token < limits_.vocab_size;
  if (!known || position > last_node_position()) return kNoNode;
  const NodeIndex node = tree_.add(parent, guess.token);
  tree_.set_confidence(node, std::max(tree_.node(node).confidence, guess.confidence));
  return node;
}

std::size_t VerifySession::rows_at_most(const PassBounds& bounds) const {
  const std::size_t chunk = chunk_of(bounds.tokens);
  if (chunk < missing()) return chunk;
  return chunk + std::min({row_budget(bounds.nodes).nodes, tree_.size()});
}

std::vector<float> VerifySession::chances(const PassBounds& bounds) const {
  std::vector<float> chances;
  if (tree_.size() == 0 || chunk_of(bounds.tokens) < missing()) return chances;
  for (const RankedNode& node : rank_nodes(tree_, row_budget(bounds.nodes))) {
    chances.push_back(node.chance);
  }
  return chances;
}

PassPlan VerifySession::start(TimePoint now, const PassBounds& bounds) {
  const std::optional<TimePoint> wanted = runnable_at();
  OUTRIDER_CHECK(wanted && *wanted <= now && bounds.tokens > 0);
  timings_.waited += *wanted - idle_since_;
  timings_.queued += now - *wanted;
  recorder_.add_queued(now - *wanted);

  PassPlan plan;
  plan.queued = now - *wanted;
  plan.position = cached_end_;
  const std::size_t chunk = chunk_of(bounds.tokens);
  const auto tokens = tree_.text().subspan(static_cast<std::size_t>(cached_end_), chunk);
  plan.tokens.assign(tokens.begin(), tokens.end());
  plan.decides = chunk == missing();
  plan.scores = is_scoring();
  plan.exits = plan.decides && policy_.wants_exits && has_exits_;
  plan.pass = next_pass_;
  if (plan.decides) take_nodes(plan, bounds.nodes);
  pass_rows_ += static_cast<std::uint32_t>(plan.rows());
  plan_ = plan;
  return plan;
}

void VerifySession::take_nodes(PassPlan& plan, std::size_t most_nodes) {
  const Selection selection = select_nodes(tree_, row_budget(most_nodes));
  std::unordered_map<NodeIndex, std::int32_t> row_of{{kRoot, -1}};
  for (const NodeIndex index : selection.taken) {
    const TreeNode& node = tree_.node(index);
    row_of[index] = static_cast<std::int32_t>(plan.nodes.size());
    plan.nodes.push_back({.token = node.token,
                          .parent = row_of.at(node.parent),
                          .id = node.id,
                          .confidence = node.confidence});
  }
  const auto keep_candidates = [&](NodeIndex index) {
    const std::span<const DraftCandidate> known = tree_.candidates(index);
    plan.candidates.emplace_back(known.begin(), known.end());
  };
  keep_candidates(kRoot);
  std::ranges::for_each(selection.taken, keep_candidates);
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

std::int32_t VerifySession::finish(const Chooser& choose, const RiderTimes& times, TimePoint now,
                                   PassReadings readings) {
  OUTRIDER_CHECK(plan_.has_value());
  timings_.computed += times.took;
  usage_.compute += times.share;
  batch_rows_ += times.rows;
  cached_end_ += static_cast<Position>(plan_->tokens.size());
  if (plan_->scores) add_scored(*plan_, std::move(readings.scored));
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
  verdict.server_nodes = own_tokens(*plan_, walked.leaf);
  verdict.tokens = std::move(walked.tokens);
  verdict.logprobs = std::move(readings.walk);
  verdict.digests = std::move(readings.digests);
  recorder_.add_pass(*plan_, verdict.tokens.size() - 1,
                     static_cast<std::size_t>(std::popcount(verdict.server_nodes)), usage_.compute,
                     now);
  plan_.reset();
  tree_.commit(verdict.tokens);
  adjuster_.append(verdict.tokens);
  if (drafts_) tree_.remove_all_unsent();
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

// Rows that were read again, because their memory was lost, are counted once.
void VerifySession::add_scored(const PassPlan& plan, std::vector<TokenLogprobs> logprobs) {
  const auto known =
      std::min(logprobs.size(), static_cast<std::size_t>(scored_end_ - plan.position));
  const auto added = std::span(logprobs).subspan(known);
  std::ranges::move(added, std::back_inserter(scored_));
  scored_end_ += std::ssize(added);
  const std::uint64_t waiting = prompt_logprobs_of(scored_.size(), open_.top_logprobs.value_or(0));
  if (scored_.empty() || (is_scoring() && waiting < kScoredAtOnce)) return;
  const Position first = scored_end_ - std::ssize(scored_) + 1;
  messages_.emplace_back(PromptLogprobs{.position = first, .logprobs = std::exchange(scored_, {})});
}

// Judges, for the edge's nodes whose parent the walk reached, whether it went on to them.
void VerifySession::judge_confidences(const PassPlan& plan, const PassWalk& walked) {
  std::int32_t at = -1;
  for (const TokenId token : walked.tokens) {
    std::int32_t next = -1;
    for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
      const PassPlan::NodeRow& node = plan.nodes[i];
      if (node.ended || node.parent != at) continue;
      if (node.id != 0) stated_.observe(0, node.confidence, node.token == token);
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
