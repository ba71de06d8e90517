// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/reference_model.h"

#include <algorithm>
#include <sstream>

namespace outrider {
namespace {

bool begins_with(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}

Position length(const std::string& text) {
  return static_cast<Position>(std::count(text.begin(), text.end(), ','));
}

std::string spell_node(const MirroredTree& tree, NodeIndex node) {
  std::vector<TokenId> path;
  for (; node != kRoot; node = tree.node(node).parent) path.push_back(tree.node(node).token);
  std::reverse(path.begin(), path.end());
  return ReferenceModel::spell(tree.text()) + ReferenceModel::spell(path);
}

}  // namespace

std::string ReferenceModel::spell(std::span<const TokenId> text) {
  std::string spelled;
  for (const TokenId token : text) spelled += std::to_string(token) + ",";
  return spelled;
}

void ReferenceModel::sent(std::span<const TokenId> text, const Grow& grow) {
  const std::string anchor = spell(text.first(static_cast<std::size_t>(grow.anchor_position)));
  for (std::size_t i = 0; i < grow.nodes.size(); ++i) {
    const NodeId id = grow.first_id + static_cast<NodeId>(i);
    const GrowNode& node = grow.nodes[i];
    nodes_[id] = (node.parent == 0 ? anchor : nodes_.at(id - node.parent)) +
                 std::to_string(node.token) + ",";
  }
}

std::set<std::string> ReferenceModel::living(std::span<const TokenId> text, NodeId last_id) const {
  const std::string committed = spell(text);
  std::set<std::string> living;
  for (const auto& [id, node] : nodes_) {
    if (id <= last_id && node != committed && begins_with(node, committed)) living.insert(node);
  }
  return living;
}

std::string ReferenceModel::compare(const MirroredTree& tree) const {
  const std::string committed = spell(tree.text());
  for (NodeId id = 1; id < tree.ids().next_id(); ++id) {
    const std::string& node = nodes_.at(id);
    const IdState state = tree.ids().state(id);
    const auto wrong = [&](const char* what) {
      std::ostringstream out;
      out << "id " << id << ": " << node << " with " << committed << ' ' << what;
      return out.str();
    };
    if (begins_with(committed, node)) {
      if (state != IdState::committed(length(node) - 1)) return wrong("should be committed");
    } else if (begins_with(node, committed)) {
      if (state.kind != IdState::Kind::kLiving) return wrong("should live");
      if (spell_node(tree, state.node) != node) return wrong("lives elsewhere in the tree");
    } else if (state != IdState::dead()) {
      return wrong("should be dead");
    }
  }
  std::set<NodeIndex> named;
  for (const IdLedger::LivingId& entry : tree.ids().living()) named.insert(entry.node);
  if (named.size() != living(tree.text(), tree.ids().last_id()).size()) {
    return "one text lives as two nodes, at end " + std::to_string(tree.end());
  }
  return {};
}

}  // namespace outrider
