// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/drafter.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace outrider {
namespace {

// A step serves a further hypothesis only if that is worth this share of the best: each row makes
// the step a little longer for all.
constexpr double kWorthARow = 0.1;

}  // namespace

// --- DraftText ----------------------------------------------------------------------------------

void DraftText::restart(std::span<const TokenId> committed) {
  // The last token's row is always run again: its logits are the first guess.
  const auto most = static_cast<std::ptrdiff_t>(std::min(cached_.size(), committed.size() - 1));
  const auto differs =
      std::mismatch(cached_.begin(), cached_.begin() + most, committed.begin()).first;
  const auto common = static_cast<std::size_t>(differs - cached_.begin());
  cached_.resize(common);
  keep_ = static_cast<Position>(common);
  pending_.clear();
  for (const TokenId token : committed.subspan(common)) append(token, kRootSlot, -1);
}

void DraftText::append(TokenId token, Slot slot, int step_row) {
  pending_.push_back({token, slot, step_row});
}

bool DraftText::row_done(int step_row, Slot slot) {
  const auto found = std::ranges::find(pending_, step_row, &Pending::step_row);
  if (found == pending_.end()) return false;
  found->slot = slot;
  found->step_row = -1;
  return std::next(found) == pending_.end();
}

bool DraftText::awaits_row() const {
  return std::ranges::any_of(pending_, [](const Pending& p) { return p.step_row >= 0; });
}

// Accepted nodes that have KV stand first: rows are run parents first.
void DraftText::settle(DraftStep& step) {
  step.keep = std::exchange(keep_, std::nullopt);
  const auto first_without =
      std::ranges::find_if(pending_, [](const Pending& p) { return p.slot == kRootSlot; });
  for (auto it = pending_.begin(); it != first_without; ++it) {
    step.commit = it->slot;
    cached_.push_back(it->token);
  }
  pending_.erase(pending_.begin(), first_without);
}

void DraftText::fill_catch_up(DraftStep& step, std::size_t chunk) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(pending_.size(), chunk));
  for (auto it = pending_.begin(); it != pending_.begin() + count; ++it) {
    step.catch_up.push_back(it->token);
    cached_.push_back(it->token);
  }
  pending_.erase(pending_.begin(), pending_.begin() + count);
  step.guess_after_catch_up = pending_.empty();
}

// --- Drafter ------------------------------------------------------------------------------------

Drafter::Drafter(const DrafterOptions& options) : options_(options) {
  OUTRIDER_CHECK(options_.prefill_chunk > 0 && options_.workers > 0);
}

void Drafter::restart(std::span<const TokenId> committed) {
  OUTRIDER_CHECK(!committed.empty());
  nodes_.restart(committed);
  text_.restart(committed);
  root_expanded_ = false;
  step_guesses_root_ = false;
  std::ranges::fill(step_rows_, kNoNode);
  evicted_slots_.clear();  // the restart cuts the cache to committed slots
  foreign_token_.reset();
  for (const TokenId token : committed) {
    if (token < 0 || token >= options_.vocab_size) foreign_token_ = token;
  }
}

std::optional<DraftStep> Drafter::grow(const GrowthPolicy& policy, Position max_depth) {
  if (step_is_out_ || exhausted()) return std::nullopt;
  max_depth = std::min(max_depth, options_.max_positions - tree().end() + 1);
  if (max_depth <= 0 || (!root_expanded_ && !policy.wants_root())) return std::nullopt;
  std::vector<NodeIndex> wanted;
  if (root_expanded_) {
    wanted = most_wanted(policy, max_depth);
    if (wanted.empty()) return std::nullopt;
  }
  DraftStep step;
  step.fan_out = policy.fan_out();
  step_rows_.clear();
  text_.settle(step);
  step.release = std::exchange(evicted_slots_, {});
  for (const NodeIndex node : wanted) add_rows(node, step);
  if (wanted.empty()) text_.fill_catch_up(step, static_cast<std::size_t>(options_.prefill_chunk));
  step_is_out_ = true;
  step_guesses_root_ = step.guess_after_catch_up;
  step_end_ = tree().end();
  return step;
}

bool Drafter::may_run(NodeIndex index, Position max_depth) const {
  const TreeNode& node = tree().node(index);
  return node.slot == kRootSlot && node.position < options_.max_positions &&
         node.token < options_.vocab_size && depth_of(tree(), index) < max_depth;
}

// The nodes whose rows are worth most, the best first: one for each hypothesis served.
std::vector<NodeIndex> Drafter::most_wanted(const GrowthPolicy& policy, Position max_depth) {
  struct Wanted {
    NodeIndex node;
    double worth;
  };
  const GrowthView view = nodes_.weighed();
  std::vector<Wanted> queue;
  for (const NodeIndex index : tree().nodes()) {
    if (!may_run(index, max_depth)) continue;
    if (const double worth = policy.worth(view, index); worth > 0) {
      queue.push_back({index, worth});
    }
  }
  std::ranges::sort(queue, [&](const Wanted& a, const Wanted& b) {
    return a.worth != b.worth ? a.worth > b.worth
                              : view.note(a.node).order < view.note(b.node).order;
  });
  const std::size_t most = std::min<std::size_t>(options_.workers, policy.most_rows());
  std::vector<NodeIndex> nodes;
  for (const Wanted& wanted : queue) {
    if (nodes.size() == most || wanted.worth < kWorthARow * queue.front().worth) break;
    nodes.push_back(wanted.node);
  }
  return nodes;
}

int Drafter::row_of(NodeIndex node) const {
  const auto found = std::ranges::find(step_rows_, node);
  return found == step_rows_.end() ? -1 : static_cast<int>(found - step_rows_.begin());
}

// The node's row, and before it those of its ancestors that were not run: a node that an exit
// named may hang under one.
void Drafter::add_rows(NodeIndex index, DraftStep& step) {
  std::vector<NodeIndex> path;
  for (NodeIndex at = index; at != kRoot && tree().node(at).slot == kRootSlot && row_of(at) < 0;
       at = tree().node(at).parent) {
    path.push_back(at);
  }
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    const TreeNode& node = tree().node(*it);
    DraftRow row{.parent = kRootSlot, .parent_row = -1, .token = node.token};
    if (node.parent != kRoot) {
      row.parent = tree().node(node.parent).slot;
      row.parent_row = row_of(node.parent);
    }
    step.grow.push_back(row);
    step_rows_.push_back(*it);
  }
}

// A row's result reaches its token where that is now: a node, committed meanwhile, or dead (then
// the cache frees the slot with its next commit).
void Drafter::finish_step(const DraftStepDone& done) {
  OUTRIDER_CHECK(step_is_out_ && done.slots.size() == step_rows_.size());
  step_is_out_ = false;
  if (step_guesses_root_ && tree().end() == step_end_) {
    root_expanded_ = true;
    nodes_.add_guesses(kRoot, done.guesses.at(0));
  }
  for (std::size_t i = 0; i < step_rows_.size(); ++i) {
    if (const NodeIndex node = step_rows_[i]; node != kNoNode) {
      nodes_.set_slot(node, done.slots[i]);
      nodes_.add_guesses(node, done.guesses.at(i));
    } else if (text_.row_done(static_cast<int>(i), done.slots[i])) {
      root_expanded_ = true;
      nodes_.add_guesses(kRoot, done.guesses.at(i));
    }
  }
  step_rows_.clear();
  keep_bound();
}

void Drafter::drop_step() {
  step_is_out_ = false;
  step_rows_.clear();
}

bool Drafter::step_is_obsolete() const {
  const auto dead = [](NodeIndex node) { return node == kNoNode; };
  return step_is_out_ && !step_rows_.empty() && std::ranges::all_of(step_rows_, dead) &&
         !text_.awaits_row();
}

std::size_t Drafter::commit(std::span<const TokenId> tokens) {
  OUTRIDER_CHECK(!tokens.empty());
  NodeIndex at = kRoot;
  std::vector<int> rows;  // of the step, that run the tokens
  for (const TokenId token : tokens) {
    if (at != kNoNode) at = tree().child(at, token);
    rows.push_back(at == kNoNode ? -1 : row_of(at));
    if (token < 0 || token >= options_.vocab_size) foreign_token_ = token;
  }
  const auto [accepted, sent_unused] = nodes_.commit(tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text_.append(tokens[i], i < accepted.size() ? accepted[i].slot : kRootSlot, rows[i]);
  }
  root_expanded_ = accepted.size() == tokens.size() && accepted.back().slot != kRootSlot;
  const auto gone = [&](NodeIndex node) { return node != kNoNode && !tree().contains(node); };
  std::ranges::replace_if(step_rows_, gone, kNoNode);
  return sent_unused;
}

PlanLimits Drafter::with_own(PlanLimits limits) const {
  limits.draft_positions = options_.max_positions;
  limits.draft_vocabulary = options_.vocab_size;
  if (exhausted()) limits.max_depth = 0;
  return limits;
}

RoundPlan Drafter::plan(RoundPlanner& planner, const PlanLimits& limits) {
  return planner.plan(PlanView(nodes_.weighed(), with_own(limits), root_expanded_));
}

Grow Drafter::send_plan(const RoundPlan& plan, RoundPlanner& planner, const PlanLimits& limits) {
  planner.on_sent(plan, PlanView(nodes_.weighed(), with_own(limits), root_expanded_));
  return nodes_.send_planned(plan.nodes, limits.max_nodes);
}

bool Drafter::round_is_whole(const RoundShape& shape) const {
  if (shape.length == 0) return true;
  const std::vector<LikeliestChain> chains = round_chains(tree(), shape);
  return !chains.empty() && std::ranges::all_of(chains, &LikeliestChain::whole);
}

void Drafter::advise(const ExitAdvice& advice) {
  nodes_.advise(advice);
  keep_bound();
}

void Drafter::keep_bound() {
  const std::vector<Slot> slots = nodes_.evict_beyond(options_.max_nodes, step_rows_);
  evicted_slots_.insert(evicted_slots_.end(), slots.begin(), slots.end());
}

std::optional<std::string> Drafter::exhausted() const {
  if (foreign_token_) {
    return "token " + std::to_string(*foreign_token_) + " is outside the draft's vocabulary of " +
           std::to_string(options_.vocab_size);
  }
  if (tree().end() > options_.max_positions) {
    return "the draft's context of " + std::to_string(options_.max_positions) + " tokens is full";
  }
  return std::nullopt;
}

}  // namespace outrider
