// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/verified_round.h"

#include <algorithm>

namespace outrider {
namespace {

// The children that the pass took, in the order of sending.
std::vector<NodeIndex> taken_children(const MirroredTree& tree, const Started& started,
                                      NodeIndex parent) {
  std::vector<NodeIndex> taken;
  for (const NodeIndex child : tree.children(parent)) {
    const NodeId id = tree.node(child).id;
    if (id != 0 && pass_took(started, id)) taken.push_back(child);
  }
  std::ranges::sort(taken, std::ranges::less{}, [&](NodeIndex node) { return tree.node(node).id; });
  return taken;
}

void count(VerifiedRound& round, std::size_t depth, std::size_t siblings) {
  if (siblings == 0) return;
  round.nodes += siblings;
  if (round.drafted.size() < depth) round.drafted.resize(depth);
  std::vector<std::uint64_t>& branches = round.drafted[depth - 1];
  if (branches.size() < siblings) branches.resize(siblings);
  for (std::size_t branch = 0; branch < siblings; ++branch) ++branches[branch];
}

}  // namespace

VerifiedRound verified_round(const MirroredTree& tree, const Started& started,
                             std::span<const TokenId> tokens) {
  VerifiedRound round;
  std::vector<NodeIndex> level{kRoot};
  for (std::size_t depth = 1; !level.empty(); ++depth) {
    std::vector<NodeIndex> next;
    for (const NodeIndex parent : level) {
      const std::vector<NodeIndex> taken = taken_children(tree, started, parent);
      count(round, depth, taken.size());
      next.insert(next.end(), taken.begin(), taken.end());
    }
    level = std::move(next);
  }
  NodeIndex at = kRoot;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const std::vector<NodeIndex> taken = taken_children(tree, started, at);
    at = tree.child(at, tokens[i]);
    const auto found = std::ranges::find(taken, at);
    if (at == kNoNode || found == taken.end()) break;
    round.accepted_branch.push_back(static_cast<std::size_t>(found - taken.begin()));
  }
  round.accepted = round.accepted_branch.size();
  return round;
}

}  // namespace outrider
