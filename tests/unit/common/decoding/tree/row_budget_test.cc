// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/tree/row_budget.h"

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

RowBudget within(std::size_t nodes) {
  return {.nodes = nodes, .last_position = kFar};
}

MirroredTree tree_of(std::vector<GrowNode> nodes) {
  MirroredTree tree({1});
  EXPECT_TRUE(tree.receive({1, 1, std::move(nodes)}, {.vocab_size = 100, .max_nodes = 64}).ok());
  return tree;
}

TEST(RowBudget, TakesEveryNodeThatFits) {
  const MirroredTree tree = tree_of({{5, 0, 1}, {6, 1, 1}, {7, 0, 255}});
  const Selection selection = select_nodes(tree, within(3));
  EXPECT_THAT(ids_of(tree, selection.taken), ElementsAre(1, 2, 3));
  EXPECT_THAT(selection.left_out, IsEmpty());
}

TEST(RowBudget, PrefersThePathLikeliestToStand) {
  // 1 (0.8) - 2 (0.5); 3 (0.2): worths 0.8, 0.4, 0.2
  const MirroredTree tree = tree_of({{5, 0, 204}, {6, 1, 128}, {7, 0, 51}});
  const Selection selection = select_nodes(tree, within(2));
  EXPECT_THAT(ids_of(tree, selection.taken), ElementsAre(1, 2));
  EXPECT_THAT(selection.left_out, ElementsAre(3));
}

TEST(RowBudget, NeverTakesAChildWithoutItsParent) {
  // A confident child under an unlikely parent, beside a better sibling.
  const MirroredTree tree = tree_of({{5, 0, 10}, {6, 1, 255}, {7, 0, 200}});
  EXPECT_THAT(ids_of(tree, select_nodes(tree, within(1)).taken), ElementsAre(3));
  EXPECT_THAT(ids_of(tree, select_nodes(tree, within(2)).taken), ElementsAre(1, 3));
}

TEST(RowBudget, WithoutConfidencesGoesByBreadthThenBySendingOrder) {
  const MirroredTree tree = tree_of({{5, 0, 0}, {6, 1, 0}, {7, 2, 0}, {8, 0, 0}});
  EXPECT_THAT(ids_of(tree, select_nodes(tree, within(2)).taken), ElementsAre(1, 4));
  EXPECT_THAT(ids_of(tree, select_nodes(tree, within(3)).taken), ElementsAre(1, 2, 4));
}

TEST(RowBudget, LeavesOutNodesBeyondTheLastUsefulPosition) {
  const MirroredTree tree = tree_of({{5, 0, 255}, {6, 1, 255}});
  const Selection selection = select_nodes(tree, {.nodes = 10, .last_position = 1});
  EXPECT_THAT(ids_of(tree, selection.taken), ElementsAre(1));
  EXPECT_THAT(selection.left_out, ElementsAre(2));
}

TEST(RowBudget, ABudgetOfNothingLeavesAllOut) {
  const MirroredTree tree = tree_of({{5, 0, 255}});
  EXPECT_THAT(select_nodes(tree, within(0)).taken, IsEmpty());
}

// A node of the verifier's own, as sure as this.
NodeIndex add_own(MirroredTree& tree, NodeIndex parent, TokenId token, float confidence) {
  const NodeIndex node = tree.add(parent, token);
  tree.set_confidence(node, confidence);
  return node;
}

TEST(RowBudget, NodesOfTheVerifiersOwnStandBehindTheEdges) {
  MirroredTree tree = tree_of({{5, 0, 128}, {6, 1, 255}});
  const NodeIndex own = add_own(tree, kRoot, 8, 0.9f);
  const NodeIndex below = add_own(tree, own, 9, 0.9f);
  const Selection all = select_nodes(tree, within(10));
  EXPECT_THAT(ids_of(tree, all.taken), ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(std::vector(all.taken.begin() + 2, all.taken.end()), ElementsAre(own, below));
  const Selection two = select_nodes(tree, within(2));
  EXPECT_THAT(two.taken, ElementsAre(own, below)) << "the likeliest two";
  EXPECT_THAT(two.left_out, ElementsAre(1, 2)) << "the verifier's own are not spoken of";
  EXPECT_THAT(select_nodes(tree, within(3)).left_out, ElementsAre(2));
}

TEST(RowBudget, ABoundForWhatTheEdgeSentLeavesTheOthersTheirs) {
  MirroredTree tree = tree_of({{5, 0, 255}, {6, 1, 255}});
  const NodeIndex second = tree.child(tree.child(kRoot, 5), 6);
  add_own(tree, second, 7, 1.0f);
  const NodeIndex own = add_own(tree, kRoot, 8, 0.1f);
  RowBudget budget = within(10);
  budget.sent = 1;
  const Selection selection = select_nodes(tree, budget);
  EXPECT_THAT(ids_of(tree, selection.taken), ElementsAre(1, 0));
  EXPECT_EQ(selection.taken.back(), own) << "what hangs under a node left out is left out";
  EXPECT_THAT(selection.left_out, ElementsAre(2));
}

TEST(RowBudget, ChancesAreThoseOfWhomItIsAskedFor) {
  const MirroredTree tree = tree_of({{5, 0, 255}, {6, 0, 51}});
  RowBudget budget = within(1);
  budget.calibrate = [](const TreeNode& node) { return node.token == 5 ? 0.1f : 0.8f; };
  EXPECT_THAT(ids_of(tree, select_nodes(tree, budget).taken), ElementsAre(2));
}

}  // namespace
}  // namespace outrider
