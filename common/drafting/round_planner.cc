// SPDX-License-Identifier: Apache-2.0
#include "common/drafting/round_planner.h"

#include <algorithm>

namespace outrider {

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

// Equal but for their order: a step takes as many as the draft serves at once.
double PlannedGrowth::worth(const GrowthView& /*view*/, NodeIndex node) const {
  const auto at = std::ranges::find(expand_, node);
  if (at == expand_.end()) return 0;
  return 2 - static_cast<double>(at - expand_.begin()) / static_cast<double>(expand_.size());
}

}  // namespace outrider
