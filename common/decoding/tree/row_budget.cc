// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/tree/row_budget.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

namespace outrider {
namespace {

// The verifier's own nodes hang under nodes with ids, never the other way round.
NodeId by_sending(NodeId id) {
  return id == 0 ? std::numeric_limits<NodeId>::max() : id;
}

// Keeps the nodes that fit, in their order.
void keep_within(const MirroredTree& tree, const RowBudget& budget,
                 std::vector<RankedNode>& ranked) {
  std::unordered_set<NodeIndex> dropped;
  std::size_t kept = 0, sent = 0;
  for (const RankedNode& one : ranked) {
    if (kept == budget.nodes) break;
    const NodeIndex parent = tree.node(one.node).parent;
    if ((one.id != 0 && sent == budget.sent) || dropped.contains(parent)) {
      dropped.insert(one.node);
      continue;
    }
    sent += one.id != 0 ? 1 : 0;
    ranked[kept++] = one;
  }
  ranked.resize(kept);
}

}  // namespace

std::vector<RankedNode> rank_nodes(const MirroredTree& tree, const RowBudget& budget) {
  std::vector<RankedNode> ranked;
  const auto add_children = [&](NodeIndex parent, float chance) {
    for (const NodeIndex child : tree.children(parent)) {
      const TreeNode& node = tree.node(child);
      if (node.position > budget.last_position) continue;
      const float stands = budget.calibrate ? budget.calibrate(node) : node.confidence;
      ranked.push_back({child, chance * stands, node.position, node.id});
    }
  };
  add_children(kRoot, 1.0f);
  for (std::size_t i = 0; i < ranked.size(); ++i) add_children(ranked[i].node, ranked[i].chance);
  std::ranges::sort(ranked, {}, [](const RankedNode& one) {
    return std::tuple(-one.chance, one.position, by_sending(one.id), one.node);
  });
  keep_within(tree, budget, ranked);
  return ranked;
}

Selection select_nodes(const MirroredTree& tree, const RowBudget& budget) {
  std::vector<RankedNode> ranked = rank_nodes(tree, budget);
  std::ranges::sort(ranked, {}, [](const RankedNode& one) {
    return std::tuple(by_sending(one.id), one.position, one.node);
  });
  Selection selection;
  std::unordered_set<NodeIndex> taken;
  for (const RankedNode& entry : ranked) {
    selection.taken.push_back(entry.node);
    taken.insert(entry.node);
  }
  for (const NodeIndex node : tree.nodes()) {
    const NodeId id = tree.node(node).id;
    if (id != 0 && !taken.contains(node)) selection.left_out.push_back(id);
  }
  std::ranges::sort(selection.left_out);
  return selection;
}

}  // namespace outrider
