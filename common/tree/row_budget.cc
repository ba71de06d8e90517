// SPDX-License-Identifier: Apache-2.0
#include "common/tree/row_budget.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>

namespace outrider {

std::vector<RankedNode> rank_nodes(const MirroredTree& tree, Position last_position,
                                   const Calibrate& calibrate) {
  std::vector<RankedNode> ranked;
  const auto add_children = [&](NodeIndex parent, float chance) {
    for (const NodeIndex child : tree.children(parent)) {
      const TreeNode& node = tree.node(child);
      if (node.position > last_position) continue;
      const float stands = calibrate ? calibrate(node.confidence) : node.confidence;
      ranked.push_back({child, chance * stands, node.position, node.id});
    }
  };
  add_children(kRoot, 1.0f);
  for (std::size_t i = 0; i < ranked.size(); ++i) add_children(ranked[i].node, ranked[i].chance);
  std::ranges::sort(ranked, [](const RankedNode& a, const RankedNode& b) {
    return std::tuple(-a.chance, a.position, a.id) < std::tuple(-b.chance, b.position, b.id);
  });
  return ranked;
}

Selection select_nodes(const MirroredTree& tree, std::size_t budget, Position last_position,
                       const Calibrate& calibrate) {
  std::vector<RankedNode> ranked = rank_nodes(tree, last_position, calibrate);
  ranked.resize(std::min(budget, ranked.size()));
  std::ranges::sort(ranked, {}, &RankedNode::id);
  Selection selection;
  std::unordered_set<NodeIndex> taken;
  for (const RankedNode& entry : ranked) {
    selection.taken.push_back(entry.node);
    taken.insert(entry.node);
  }
  for (const NodeIndex node : tree.nodes()) {
    if (!taken.contains(node)) selection.left_out.push_back(tree.node(node).id);
  }
  std::ranges::sort(selection.left_out);
  return selection;
}

}  // namespace outrider
