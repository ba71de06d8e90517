// SPDX-License-Identifier: Apache-2.0
#include "common/tree/row_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Position kFar = std::numeric_limits<Position>::max();

std::vector<NodeId> ids_of(const MirroredTree& tree, const std::vector<NodeIndex>& nodes) {
  std::vector<NodeId> ids;
  for (const NodeIndex node : nodes) ids.push_back(tree.node(node).id);
  return ids;
}

MirroredTree tree_of(std::vector<GrowNode> nodes) {
  MirroredTree tree({1});
  EXPECT_TRUE(tree.receive({1, 1, std::move(nodes)}, {.vocab_size = 100, .max_nodes = 64}).ok());
  return tree;
}

TEST(RowBudget, TakesEveryNodeThatFits) {
  const MirroredTree tree = tree_of({{5, 0, 1}, {6, 1, 1}, {7, 0, 255}});
  const Selection selection = select_nodes(tree, 3, kFar);
  EXPECT_THAT(ids_of(tree, selection.taken), ElementsAre(1, 2, 3));
  EXPECT_THAT(selection.left_out, IsEmpty());
}

TEST(RowBudget, PrefersThePathLikeliestToStand) {
  // 1 (0.8) - 2 (0.5); 3 (0.2): worths 0.8, 0.4, 0.2
  const MirroredTree tree = tree_of({{5, 0, 204}, {6, 1, 128}, {7, 0, 51}});
  const Selection selection = select_nodes(tree, 2, kFar);
  EXPECT_THAT(ids_of(tree, selection.taken), ElementsAre(1, 2));
  EXPECT_THAT(selection.left_out, ElementsAre(3));
}

TEST(RowBudget, NeverTakesAChildWithoutItsParent) {
  // A confident child under an unlikely parent, beside a better sibling.
  const MirroredTree tree = tree_of({{5, 0, 10}, {6, 1, 255}, {7, 0, 200}});
  EXPECT_THAT(ids_of(tree, select_nodes(tree, 1, kFar).taken), ElementsAre(3));
  EXPECT_THAT(ids_of(tree, select_nodes(tree, 2, kFar).taken), ElementsAre(1, 3));
}

TEST(RowBudget, WithoutConfidencesGoesByBreadthThenBySendingOrder) {
  const MirroredTree tree = tree_of({{5, 0, 0}, {6, 1, 0}, {7, 2, 0}, {8, 0, 0}});
  EXPECT_THAT(ids_of(tree, select_nodes(tree, 2, kFar).taken), ElementsAre(1, 4));
  EXPECT_THAT(ids_of(tree, select_nodes(tree, 3, kFar).taken), ElementsAre(1, 2, 4));
}

TEST(RowBudget, LeavesOutNodesBeyondTheLastUsefulPosition) {
  const MirroredTree tree = tree_of({{5, 0, 255}, {6, 1, 255}});
  const Selection selection = select_nodes(tree, 10, 1);
  EXPECT_THAT(ids_of(tree, selection.taken), ElementsAre(1));
  EXPECT_THAT(selection.left_out, ElementsAre(2));
}

TEST(RowBudget, ABudgetOfNothingLeavesAllOut) {
  const MirroredTree tree = tree_of({{5, 0, 255}});
  EXPECT_THAT(select_nodes(tree, 0, kFar).taken, IsEmpty());
}

}  // namespace
}  // namespace outrider
