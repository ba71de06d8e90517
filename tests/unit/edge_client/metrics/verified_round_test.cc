// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/verified_round.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Ids = std::vector<TokenId>;

class VerifiedRoundTest : public testing::Test {
 protected:
  // The nodes of these tokens below one another; sent, so their ids follow one another.
  NodeIndex send_chain(NodeIndex parent, const Ids& tokens) {
    for (const TokenId token : tokens) {
      parent = tree_.add(parent, token);
      tree_.send(std::array{parent});
    }
    return parent;
  }
  VerifiedRound verify(const Ids& tokens, NodeId last_id = 100) const {
    return verified_round(tree_, {.last_id = last_id}, tokens);
  }

  MirroredTree tree_{{1, 2, 3}};
};

TEST_F(VerifiedRoundTest, WithoutNodesNothingIsVerified) {
  const VerifiedRound round = verify({7});
  EXPECT_EQ(round.nodes, 0u);
  EXPECT_EQ(round.depth(), 0u);
  EXPECT_EQ(round.accepted, 0u);
}

TEST_F(VerifiedRoundTest, AChainThatStandsWholeIsAcceptedAtEveryDepth) {
  send_chain(kRoot, {4, 5, 6});
  const VerifiedRound round = verify({4, 5, 6, 9});
  EXPECT_EQ(round.nodes, 3u);
  EXPECT_EQ(round.accepted, 3u);
  EXPECT_THAT(round.drafted, ElementsAre(ElementsAre(1), ElementsAre(1), ElementsAre(1)));
  EXPECT_THAT(round.accepted_branch, ElementsAre(0, 0, 0));
}

TEST_F(VerifiedRoundTest, AChainIsAcceptedUpToTheCorrection) {
  send_chain(kRoot, {4, 5, 6});
  EXPECT_EQ(verify({9}).accepted, 0u);
  const VerifiedRound round = verify({4, 9});
  EXPECT_EQ(round.accepted, 1u);
  EXPECT_EQ(round.depth(), 3u) << "what fell was verified too";
  EXPECT_THAT(round.accepted_branch, ElementsAre(0));
}

// The last token is the target's own choice: a node of the same token was not verified by it.
TEST_F(VerifiedRoundTest, TheLastTokenIsNotAccepted) {
  send_chain(kRoot, {4, 5});
  EXPECT_EQ(verify({4, 5}).accepted, 1u);
}

TEST_F(VerifiedRoundTest, TwoBranchesAreCountedSideBySide) {
  send_chain(kRoot, {4, 5, 6});
  send_chain(kRoot, {7, 8});
  const VerifiedRound round = verify({9});
  EXPECT_EQ(round.nodes, 5u);
  EXPECT_THAT(round.drafted, ElementsAre(ElementsAre(1, 1), ElementsAre(2), ElementsAre(1)))
      << "below the root every node is the first of its siblings";
  EXPECT_THAT(round.accepted_branch, IsEmpty());
}

TEST_F(VerifiedRoundTest, TheBranchThatStoodIsNamed) {
  send_chain(kRoot, {4, 5, 6});
  send_chain(kRoot, {7, 8});
  EXPECT_THAT(verify({4, 5, 9}).accepted_branch, ElementsAre(0, 0));
  EXPECT_THAT(verify({7, 8, 9}).accepted_branch, ElementsAre(1, 0));
  EXPECT_THAT(verify({7, 9}).accepted_branch, ElementsAre(1));
}

TEST_F(VerifiedRoundTest, BranchesMayPartBelowTheRoot) {
  const NodeIndex first = send_chain(kRoot, {4});
  send_chain(first, {5});
  send_chain(first, {6});
  const VerifiedRound round = verify({4, 6, 9});
  EXPECT_THAT(round.drafted, ElementsAre(ElementsAre(1), ElementsAre(1, 1)));
  EXPECT_THAT(round.accepted_branch, ElementsAre(0, 1));
}

// Branches are numbered as they were sent, however the tree holds them.
TEST_F(VerifiedRoundTest, TheFirstBranchIsTheOneThatWasSentFirst) {
  const NodeIndex added_first = tree_.add(kRoot, 4);
  const NodeIndex added_second = tree_.add(kRoot, 7);
  tree_.send(std::array{added_second, added_first});
  EXPECT_THAT(verify({7, 9}).accepted_branch, ElementsAre(0));
  EXPECT_THAT(verify({4, 9}).accepted_branch, ElementsAre(1));
}

TEST_F(VerifiedRoundTest, NodesThatThePassDidNotTakeAreNotOfTheRound) {
  const NodeIndex last = send_chain(kRoot, {4, 5});
  send_chain(last, {6});  // sent, but the pass had begun
  tree_.add(last, 7);     // not sent
  const VerifiedRound late = verify({4, 5, 6, 9}, 2);
  EXPECT_EQ(late.nodes, 2u);
  EXPECT_EQ(late.depth(), 2u);
  EXPECT_EQ(late.accepted, 2u);
  const VerifiedRound left_out =
      verified_round(tree_, {.last_id = 3, .left_out = {2, 3}}, Ids{4, 5, 9});
  EXPECT_EQ(left_out.nodes, 1u);
  EXPECT_EQ(left_out.accepted, 1u);
}

}  // namespace
}  // namespace outrider
