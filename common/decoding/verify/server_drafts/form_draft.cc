// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/form_draft.h"

#include <algorithm>

namespace outrider {
namespace {

std::vector<TokenId> path_to(const MirroredTree& tree, NodeIndex node) {
  std::vector<TokenId> path;
  for (; node != kRoot; node = tree.node(node).parent) path.push_back(tree.node(node).token);
  std::ranges::reverse(path);
  return path;
}

}  // namespace

void FormDraft::learn(std::span<const TokenId> text) {
  const std::span<const TokenId> became = text.subspan(std::min(guessed_at_, text.size()));
  for (std::size_t i = 0; i < std::min(guessed_.size(), became.size()); ++i) {
    Record& seen = record(rank_of(i, guessed_.size()));
    seen.cases += 1;
    if (guessed_[i] != became[i]) break;
    seen.right += 1;
  }
}

void FormDraft::grow(MirroredTree& tree, const RowAdjuster& form, const RowBudget& budget,
                     double least_chance) {
  const auto state = [&tree] { return std::tuple(tree.end(), tree.ids().last_id(), tree.size()); };
  if (grown_ == state()) return;
  if (guessed_at_ != tree.text().size()) {
    learn(tree.text());
    guessed_.clear();
    guessed_at_ = tree.text().size();
  }
  std::size_t own = 0;
  const auto extend = [&](NodeIndex node, double stands) {
    const std::vector<TokenId> forced = form.forced(path_to(tree, node));
    if (node == kRoot) guessed_ = forced;
    Position position = node == kRoot ? tree.end() : tree.node(node).position + 1;
    for (std::size_t i = 0; i < forced.size(); ++i, ++position) {
      const double here = chance(rank_of(i, forced.size()));
      stands *= here;
      if (stands < least_chance || own == budget.nodes || position > budget.last_position) return;
      if (tree.child(node, forced[i]) == kNoNode) ++own;
      node = tree.add(node, forced[i]);
      tree.set_confidence(node, std::max(tree.node(node).confidence, static_cast<float>(here)));
    }
  };
  const std::vector<RankedNode> drafted = rank_nodes(tree, budget);
  extend(kRoot, 1);
  for (const RankedNode& one : drafted) {
    if (double{one.chance} < least_chance) break;
    if (tree.children(one.node).empty()) extend(one.node, double{one.chance});
  }
  grown_ = state();
}

}  // namespace outrider
