// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/round_planner.h"

#include <algorithm>

namespace outrider {
namespace {

std::vector<TokenId> tokens_of(const PlanView& view, const std::vector<NodeIndex>& nodes) {
  std::vector<TokenId> tokens;
  for (const NodeIndex node : nodes) tokens.push_back(view.token(node));
  return tokens;
}

}  // namespace

bool PlanView::can_expand(NodeIndex node) const {
  if (depth(node) >= limits_.max_depth) return false;
  if (node == kRoot) return true;
  const TreeNode& at = view_.tree.node(node);
  return at.position < limits_.draft_positions && at.token < limits_.draft_vocabulary;
}

std::vector<NodeIndex> PlanView::candidates(NodeIndex node) const {
  std::vector<NodeIndex> found;
  if (depth(node) >= limits_.max_depth) return found;
  for (const NodeIndex child : view_.tree.children(node)) {
    if (token(child) < limits_.token_bound) found.push_back(child);
  }
  return found;
}

double PlanView::confidence(NodeIndex node) const {
  const float own = view_.note(node).guessed;
  return own >= 0 ? own : view_.tree.node(node).confidence;
}

// Equal except for their order: a step takes as many as the draft serves at once.
double PlannedGrowth::worth(const GrowthView& /*view*/, NodeIndex node) const {
  const auto at = std::ranges::find(expand_, node);
  if (at == expand_.end()) return 0;
  return 2 - static_cast<double>(at - expand_.begin()) / static_cast<double>(expand_.size());
}

SentRound::SentRound(const RoundPlan& plan, const PlanView& view)
    : root_candidates_(tokens_of(view, view.candidates(kRoot))) {
  for (const NodeIndex index : plan.nodes) {
    Node node{.index = index, .token = view.token(index)};
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].index == view.parent(index)) node.parent = i + 1;
    }
    if (view.is_expanded(index)) node.candidates = tokens_of(view, view.candidates(index));
    nodes_.push_back(std::move(node));
  }
  std::vector<bool> has_child(nodes_.size(), false);
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    leaves_ += has_child[i] ? 0 : 1;
    const std::size_t parent = nodes_[i].parent;
    if (parent == 0) continue;
    has_child[parent - 1] = true;
    nodes_[parent - 1].below = std::max(nodes_[parent - 1].below, nodes_[i].below + 1);
  }
}

SentRound::Match SentRound::match(std::span<const TokenId> tokens) const {
  Match match;
  std::size_t at = 0;  // 0: the root
  for (const TokenId token : tokens) {
    const std::vector<TokenId>& known = at == 0 ? root_candidates_ : nodes_[at - 1].candidates;
    if (!known.empty()) {
      ++match.asked;
      match.named += std::ranges::find(known, token) != known.end() ? 1 : 0;
      match.first += known.front() == token ? 1 : 0;
    }
    std::size_t next = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].parent == at && nodes_[i].token == token) next = i + 1;
    }
    if (next == 0) break;
    at = next;
    ++match.accepted;
  }
  std::size_t longest = 0;  // from the root, where nothing was accepted
  for (const Node& node : nodes_) {
    if (node.parent == 0) longest = std::max(longest, node.below + 1);
  }
  match.length = at == 0 ? longest : match.accepted + nodes_[at - 1].below;
  return match;
}

}  // namespace outrider
