// SPDX-License-Identifier: Apache-2.0
#include "common/tree/row_budget.h"

#include <algorithm>
#include <tuple>

namespace outrider {
namespace {

struct Ranked {
  NodeIndex node;
  float worth;  // the product of the confidences on its path
  Position position;
  NodeId id;
};

// All nodes, each after its parent.
std::vector<Ranked> rank_nodes(const MirroredTree& tree) {
  std::vector<Ranked> ranked;
  const auto add_children = [&](NodeIndex parent, float worth) {
    for (const NodeIndex child : tree.children(parent)) {
      const TreeNode& node = tree.node(child);
      ranked.push_back({child, worth * node.confidence, node.position, node.id});
    }
  };
  add_children(kRoot, 1.0f);
  for (std::size_t i = 0; i < ranked.size(); ++i) add_children(ranked[i].node, ranked[i].worth);
  return ranked;
}

}  // namespace

Selection select_nodes(const MirroredTree& tree, std::size_t budget, Position last_position) {
  std::vector<Ranked> ranked = rank_nodes(tree);
  const auto useful = std::partition(ranked.begin(), ranked.end(), [&](const Ranked& entry) {
    return entry.position <= last_position;
  });
  std::sort(ranked.begin(), useful, [](const Ranked& a, const Ranked& b) {
    return std::tuple(-a.worth, a.position, a.id) < std::tuple(-b.worth, b.position, b.id);
  });
  const auto fitting = std::min(budget, static_cast<std::size_t>(useful - ranked.begin()));
  const auto border = ranked.begin() + static_cast<std::ptrdiff_t>(fitting);
  const auto by_id = [](const Ranked& a, const Ranked& b) { return a.id < b.id; };
  std::sort(ranked.begin(), border, by_id);
  std::sort(border, ranked.end(), by_id);
  Selection selection;
  for (auto it = ranked.begin(); it != border; ++it) selection.taken.push_back(it->node);
  for (auto it = border; it != ranked.end(); ++it) selection.left_out.push_back(it->id);
  return selection;
}

}  // namespace outrider
