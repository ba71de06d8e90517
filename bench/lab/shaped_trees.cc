// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/shaped_trees.h"

#include <iterator>
#include <memory>
#include <queue>

namespace outrider {
namespace {

constexpr std::size_t kAnySize = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kTopNodes = 16;

}  // namespace

RoundPlan FixedWidths::plan(const PlanView& view) {
  const std::size_t most = std::min(max_nodes_, view.limits().max_nodes);
  RoundPlan plan;
  std::vector<NodeIndex> level{kRoot};
  for (const int width : widths_) {
    std::vector<NodeIndex> next;
    for (const NodeIndex node : level) {
      if (!view.is_expanded(node)) {
        if (view.can_expand(node)) plan.expand.push_back(node);
        continue;
      }
      std::vector<NodeIndex> candidates = view.candidates(node);
      std::ranges::stable_sort(candidates, std::ranges::greater{},
                               [&](NodeIndex one) { return view.confidence(one); });
      const auto count = std::min(candidates.size(), static_cast<std::size_t>(width));
      for (std::size_t i = 0; i < count; ++i) {
        if (plan.nodes.size() == most) return {std::move(plan.nodes), {}};
        plan.nodes.push_back(candidates[i]);
        next.push_back(candidates[i]);
      }
    }
    if (!plan.expand.empty()) return plan;  // level by level
    level = std::move(next);
  }
  return plan;
}

RoundPlan TopNodes::plan(const PlanView& view) {
  struct Candidate {
    NodeIndex node;
    double chance;
    bool operator<(const Candidate& other) const {
      return chance != other.chance ? chance < other.chance : node > other.node;
    }
  };
  RoundPlan plan;
  std::priority_queue<Candidate> frontier;
  const auto open = [&](NodeIndex node, double chance) {
    if (!view.is_expanded(node)) {
      if (view.can_expand(node)) plan.expand.push_back(node);
      return;
    }
    for (const NodeIndex child : view.candidates(node)) {
      frontier.push({child, chance * view.confidence(child)});
    }
  };
  open(kRoot, 1);
  const std::size_t most = std::min(size_, view.limits().max_nodes);
  while (!frontier.empty() && plan.nodes.size() < most) {
    const Candidate best = frontier.top();
    frontier.pop();
    plan.nodes.push_back(best.node);
    // The last node's children would come after it.
    if (plan.nodes.size() < most) open(best.node, best.chance);
  }
  return plan;
}

std::vector<GuestTree> shaped_trees(const std::vector<int>& widths) {
  return {{"fixed",
           [&widths](std::size_t size) {
             return std::make_unique<FixedWidths>(widths, size > 0 ? size : kAnySize);
           }},
          {"top-n", [](std::size_t size) {
             return std::make_unique<TopNodes>(size > 0 ? size : kTopNodes);
           }}};
}

const std::vector<GuestTree>& shaped_trees() {
  static const std::vector<int> widths(std::begin(kSpecInferWidths), std::end(kSpecInferWidths));
  static const std::vector<GuestTree> trees = shaped_trees(widths);
  return trees;
}

}  // namespace outrider
