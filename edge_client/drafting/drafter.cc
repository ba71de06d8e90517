// SPDX-License-Identifier: Apache-2.0
#include "edge_client/drafting/drafter.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace outrider {

Drafter::Drafter(const DrafterOptions& options, std::unique_ptr<GrowthPolicy> policy)
    : options_(options), policy_(std::move(policy)), tree_({}) {
  OUTRIDER_CHECK(options_.prefill_chunk > 0);
}

void Drafter::restart(std::span<const TokenId> committed) {
  OUTRIDER_CHECK(!committed.empty());
  // The last token's row is always run again: its logits are the first guess.
  const auto most = static_cast<std::ptrdiff_t>(std::min(cached_.size(), committed.size() - 1));
  const auto differs =
      std::mismatch(cached_.begin(), cached_.begin() + most, committed.begin()).first;
  const auto common = static_cast<std::size_t>(differs - cached_.begin());
  cached_.resize(common);
  keep_ = static_cast<Position>(common);
  tree_ = MirroredTree(std::vector<TokenId>(committed.begin(), committed.end()));
  root_expanded_ = false;
  step_guesses_root_ = false;
  step_node_ = kNoNode;
  pending_.clear();
  foreign_token_.reset();
  for (const TokenId token : committed.subspan(common)) take_pending(token, kRootSlot, false);
}

std::optional<DraftStep> Drafter::grow(Position max_depth) {
  if (step_is_out_ || policy_ == nullptr || exhausted()) return std::nullopt;
  max_depth = std::min(max_depth, options_.max_positions - tree_.end() + 1);
  if (max_depth <= 0 || policy_->enough(tree_, max_depth)) return std::nullopt;
  const NodeIndex best = root_expanded_ ? best_to_grow(max_depth) : kNoNode;
  if (root_expanded_ && best == kNoNode) return std::nullopt;

  DraftStep step;
  step.fan_out = policy_->fan_out();
  step.keep = std::exchange(keep_, std::nullopt);
  settle_accepted(step);
  if (best != kNoNode) {
    const TreeNode& node = tree_.node(best);
    step.grow.push_back(
        {node.parent == kRoot ? kRootSlot : tree_.node(node.parent).slot, node.token});
  } else {
    fill_catch_up(step);
  }
  step_is_out_ = true;
  step_node_ = best;
  step_rows_ = step.grow.size();
  step_guesses_root_ = step.guess_after_catch_up;
  step_end_ = tree_.end();
  return step;
}

NodeIndex Drafter::best_to_grow(Position max_depth) const {
  NodeIndex best = kNoNode;
  double best_priority = 0;
  for (std::size_t i = 0; i < tree_.index_limit(); ++i) {
    const auto index = static_cast<NodeIndex>(i);
    if (!tree_.contains(index)) continue;
    const TreeNode& node = tree_.node(index);
    const bool may_run = node.slot == kRootSlot && node.position < options_.max_positions &&
                         node.token < options_.vocab_size && depth_of(tree_, index) < max_depth;
    if (!may_run) continue;
    const double priority = policy_->priority(tree_, index);
    if (best == kNoNode || priority > best_priority) {
      best = index;
      best_priority = priority;
    }
  }
  return best;
}

// Accepted nodes that have KV stand first in pending_: rows are run parents first.
void Drafter::settle_accepted(DraftStep& step) {
  const auto first_without =
      std::ranges::find_if(pending_, [](const Pending& p) { return p.slot == kRootSlot; });
  for (auto it = pending_.begin(); it != first_without; ++it) {
    step.commit = it->slot;
    cached_.push_back(it->token);
  }
  pending_.erase(pending_.begin(), first_without);
}

void Drafter::fill_catch_up(DraftStep& step) {
  const auto count = std::min(pending_.size(), static_cast<std::size_t>(options_.prefill_chunk));
  const auto end = pending_.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto it = pending_.begin(); it != end; ++it) {
    step.catch_up.push_back(it->token);
    cached_.push_back(it->token);
  }
  pending_.erase(pending_.begin(), end);
  step.guess_after_catch_up = pending_.empty();
}

// A row's result reaches its token where that is now: a node, committed meanwhile, or dead (then
// the cache frees the slot with its next commit).
void Drafter::finish_step(const DraftStepDone& done) {
  OUTRIDER_CHECK(step_is_out_ && done.slots.size() == step_rows_);
  step_is_out_ = false;
  if (step_guesses_root_ && tree_.end() == step_end_) {
    root_expanded_ = true;
    add_guesses(kRoot, done.guesses.at(0));
  }
  if (step_rows_ == 0) return;
  if (step_node_ != kNoNode) {
    tree_.set_slot(step_node_, done.slots[0]);
    add_guesses(step_node_, done.guesses.at(0));
  }
  const auto committed = std::ranges::find_if(pending_, &Pending::in_step);
  if (committed == pending_.end()) return;
  committed->slot = done.slots[0];
  committed->in_step = false;
  if (std::next(committed) == pending_.end()) {
    root_expanded_ = true;
    add_guesses(kRoot, done.guesses.at(0));
  }
}

void Drafter::add_guesses(NodeIndex parent, const std::vector<Guess>& guesses) {
  for (const Guess& guess : guesses) {
    tree_.set_confidence(tree_.add(parent, guess.token), guess.confidence);
  }
}

Grow Drafter::select(std::size_t max_nodes, std::int32_t token_bound) {
  std::size_t room = max_nodes - std::min(max_nodes, tree_.ids().living().size());
  std::vector<NodeIndex> chosen;
  std::vector<NodeIndex> level(tree_.children(kRoot).begin(), tree_.children(kRoot).end());
  // Level by level, so that parents stand before their children.
  for (std::size_t i = 0; i < level.size() && room > 0; ++i) {
    const TreeNode& node = tree_.node(level[i]);
    if (node.token >= token_bound) continue;
    level.insert(level.end(), node.children.begin(), node.children.end());
    if (node.id != 0) continue;
    chosen.push_back(level[i]);
    --room;
  }
  return tree_.send(chosen);
}

void Drafter::commit(std::span<const TokenId> tokens) {
  NodeIndex at = kRoot;
  std::vector<bool> in_step;
  for (const TokenId token : tokens) {
    if (at != kNoNode) at = tree_.child(at, token);
    in_step.push_back(at != kNoNode && at == step_node_);
  }
  const std::vector<TreeNode> accepted = tree_.commit(tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    take_pending(tokens[i], i < accepted.size() ? accepted[i].slot : kRootSlot, in_step[i]);
  }
  root_expanded_ = pending_.empty() ? root_expanded_ : pending_.back().slot != kRootSlot;
  if (step_node_ != kNoNode && !tree_.contains(step_node_)) step_node_ = kNoNode;
}

void Drafter::take_pending(TokenId token, Slot slot, bool in_step) {
  if (token < 0 || token >= options_.vocab_size) foreign_token_ = token;
  pending_.push_back({token, slot, in_step});
}

std::optional<std::string> Drafter::exhausted() const {
  if (foreign_token_) {
    return "token " + std::to_string(*foreign_token_) + " is outside the draft's vocabulary of " +
           std::to_string(options_.vocab_size);
  }
  if (tree_.end() > options_.max_positions) {
    return "the draft's context of " + std::to_string(options_.max_positions) + " tokens is full";
  }
  return std::nullopt;
}

}  // namespace outrider
