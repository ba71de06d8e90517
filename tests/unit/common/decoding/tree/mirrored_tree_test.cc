// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/tree/mirrored_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr ReceiveLimits kLimits{.vocab_size = 100, .max_nodes = 8};

// Two sides of one stream, connected directly.
struct Pair {
  MirroredTree edge{{1, 2, 3}};
  MirroredTree verifier{{1, 2, 3}};

  Received carry(std::initializer_list<NodeIndex> nodes) {
    const std::vector<NodeIndex> list(nodes);
    return *verifier.receive(edge.send(list), kLimits);
  }
};

std::vector<TokenId> tokens_under(const MirroredTree& tree, NodeIndex parent) {
  std::vector<TokenId> tokens;
  for (const NodeIndex child : tree.children(parent)) tokens.push_back(tree.node(child).token);
  return tokens;
}

TEST(MirroredTree, NumbersNodesInSendingOrderAndAnchorsThemAtTheEnd) {
  MirroredTree edge({1, 2, 3});
  const NodeIndex a = edge.add(kRoot, 10);
  const NodeIndex b = edge.add(a, 11);
  const NodeIndex c = edge.add(kRoot, 12);
  edge.set_confidence(a, 1.0f);
  edge.set_confidence(b, 0.5f);
  const std::vector<NodeIndex> order{a, c, b};
  const Grow grow = edge.send(order);
  EXPECT_EQ(grow.first_id, 1u);
  EXPECT_EQ(grow.anchor_position, 3);
  ASSERT_THAT(grow.nodes, SizeIs(3));
  EXPECT_EQ(grow.nodes[0].parent, 0u);
  EXPECT_EQ(grow.nodes[1].parent, 0u);
  EXPECT_EQ(grow.nodes[2].parent, 2u);  // id 3 hangs under id 1
  EXPECT_EQ(grow.nodes[0].confidence, 255);
  EXPECT_EQ(grow.nodes[2].confidence, 128);
  EXPECT_EQ(edge.node(b).position, 4);
  EXPECT_EQ(edge.ids().next_id(), 4u);
}

TEST(MirroredTree, TheEmptyGrowNamesTheEndAndTakesNoId) {
  MirroredTree edge({1, 2, 3});
  const Grow grow = edge.send({});
  EXPECT_EQ(grow.first_id, 1u);
  EXPECT_EQ(grow.anchor_position, 3);
  EXPECT_EQ(edge.ids().next_id(), 1u);
}

TEST(MirroredTree, AddingTheSameChildTwiceGivesTheSameNode) {
  MirroredTree edge({1});
  const NodeIndex a = edge.add(kRoot, 5);
  EXPECT_EQ(edge.add(kRoot, 5), a);
  EXPECT_EQ(edge.size(), 1u);
}

TEST(MirroredTree, ACommitInsideTheTreeKeepsWhatHangsBelow) {
  Pair pair;
  const NodeIndex a = pair.edge.add(kRoot, 10);
  const NodeIndex b = pair.edge.add(a, 11);
  const NodeIndex below = pair.edge.add(b, 12);
  const NodeIndex unsent = pair.edge.add(b, 13);
  const NodeIndex loser = pair.edge.add(kRoot, 20);
  pair.edge.set_slot(b, 42);
  pair.carry({a, b, below, loser});
  const std::vector<TokenId> verdict{10, 11};
  const std::vector<TreeNode> walked = pair.edge.commit(verdict);
  pair.verifier.commit(verdict);
  ASSERT_THAT(walked, SizeIs(2));
  EXPECT_EQ(walked[1].slot, 42);
  EXPECT_EQ(pair.edge.end(), 5);
  EXPECT_THAT(tokens_under(pair.edge, kRoot), ElementsAre(12, 13));
  EXPECT_EQ(pair.edge.node(below).parent, kRoot);
  EXPECT_EQ(pair.edge.node(below).position, 5);
  EXPECT_TRUE(pair.edge.contains(unsent));
  EXPECT_FALSE(pair.edge.contains(loser));
  EXPECT_THAT(tokens_under(pair.verifier, kRoot), ElementsAre(12));
  EXPECT_EQ(pair.verifier.ids().state(2), IdState::committed(4));
  EXPECT_EQ(pair.edge.ids().state(2), IdState::committed(4));
  EXPECT_EQ(pair.verifier.ids().state(4), IdState::dead());
}

TEST(MirroredTree, ACommitThatLeavesTheTreeEmptiesIt) {
  Pair pair;
  const NodeIndex a = pair.edge.add(kRoot, 10);
  pair.carry({a, pair.edge.add(a, 11)});
  const std::vector<TokenId> verdict{10, 55};
  EXPECT_THAT(pair.edge.commit(verdict), SizeIs(1));
  EXPECT_THAT(pair.verifier.commit(verdict), SizeIs(1));
  EXPECT_EQ(pair.edge.size(), 0u);
  EXPECT_EQ(pair.verifier.size(), 0u);
  EXPECT_THAT(pair.verifier.ids().living(), IsEmpty());
  EXPECT_THAT(pair.verifier.text(), ElementsAre(1, 2, 3, 10, 55));
}

TEST(MirroredTree, CommittingNothingChangesNothing) {
  Pair pair;
  pair.carry({pair.edge.add(kRoot, 10)});
  pair.verifier.commit({});
  EXPECT_EQ(pair.verifier.end(), 3);
  EXPECT_THAT(tokens_under(pair.verifier, kRoot), ElementsAre(10));
}

TEST(MirroredTree, ANodeGetsTheStateOfItsPathOnArrival) {
  Pair pair;
  const NodeIndex a = pair.edge.add(kRoot, 10);
  pair.carry({a});                                     // id 1
  pair.verifier.commit(std::vector<TokenId>{10, 11});  // the edge does not know it yet
  const NodeIndex right = pair.edge.add(a, 11);        // equals the text
  const NodeIndex beyond = pair.edge.add(right, 12);   // beyond the end
  const NodeIndex wrong = pair.edge.add(a, 99);        // disagrees
  const NodeIndex lost = pair.edge.add(wrong, 12);     // under a dead one
  const Received received = pair.carry({right, beyond, wrong, lost});
  EXPECT_EQ(received.committed, 1u);
  EXPECT_EQ(received.living, 1u);
  EXPECT_EQ(received.dead, 2u);
  EXPECT_THAT(tokens_under(pair.verifier, kRoot), ElementsAre(12));
  // The verdict arrives: both sides agree without further messages.
  pair.edge.commit(std::vector<TokenId>{10, 11});
  EXPECT_THAT(tokens_under(pair.edge, kRoot), ElementsAre(12));
  for (NodeId id = 1; id < pair.edge.ids().next_id(); ++id) {
    EXPECT_EQ(pair.edge.ids().state(id).kind, pair.verifier.ids().state(id).kind) << "id " << id;
  }
}

TEST(MirroredTree, AnOldAnchorIsComparedWithTheCommittedText) {
  MirroredTree verifier({1, 2, 3});
  const Grow grow{.first_id = 1, .anchor_position = 1, .nodes = {{2, 0, 0}, {9, 0, 0}, {3, 2, 0}}};
  const Received received = *verifier.receive(grow, kLimits);
  EXPECT_EQ(received.committed, 2u);
  EXPECT_EQ(received.dead, 1u);
  EXPECT_EQ(verifier.ids().state(3), IdState::committed(2));
}

TEST(MirroredTree, ARepeatedLivingNodeIsAnAliasAndItsChildrenMeet) {
  MirroredTree verifier({1});
  const Grow grow{.first_id = 1,
                  .anchor_position = 1,
                  .nodes = {{5, 0, 200}, {5, 0, 100}, {6, 1, 0}, {6, 3, 0}}};
  ASSERT_TRUE(verifier.receive(grow, kLimits).ok());
  EXPECT_EQ(verifier.size(), 2u);
  EXPECT_EQ(verifier.ids().state(1), verifier.ids().state(2));
  EXPECT_EQ(verifier.ids().state(3), verifier.ids().state(4));
  verifier.commit(std::vector<TokenId>{5});
  EXPECT_EQ(verifier.ids().state(1), IdState::committed(1));
  EXPECT_EQ(verifier.ids().state(2), IdState::committed(1));
}

TEST(MirroredTree, UnsentNodesCanBeForgottenAndSentOnesStay) {
  MirroredTree edge({1});
  const NodeIndex a = edge.add(kRoot, 5);
  const NodeIndex b = edge.add(a, 6);
  const NodeIndex c = edge.add(b, 7);
  edge.send(std::vector<NodeIndex>{a});
  edge.remove_unsent(b);
  EXPECT_TRUE(edge.contains(a));
  EXPECT_FALSE(edge.contains(b));
  EXPECT_FALSE(edge.contains(c));
  EXPECT_THAT(edge.children(a), IsEmpty());
  EXPECT_EQ(edge.add(a, 8), c);  // storage is reused
  EXPECT_EQ(edge.node(c).id, 0u);
}

TEST(MirroredTree, StorageAndLedgerStaySmallOverALongStream) {
  Pair pair;
  for (int round = 0; round < 20'000; ++round) {
    const NodeIndex a = pair.edge.add(kRoot, round % 50);
    const NodeIndex b = pair.edge.add(kRoot, 50 + round % 50);
    pair.carry({a, b});
    const std::vector<TokenId> verdict{round % 2 == 0 ? round % 50 : 50 + round % 50, 99};
    pair.edge.commit(verdict);
    pair.verifier.commit(verdict);
  }
  EXPECT_LE(pair.verifier.index_limit(), 2u);
  EXPECT_LE(pair.verifier.ids().runs(), 20'000u);
  EXPECT_EQ(pair.verifier.ids().state(1), IdState::committed(3));
  EXPECT_EQ(pair.verifier.ids().state(2), IdState::dead());
}

struct BadGrow {
  const char* what;
  Grow grow;
  StatusCode code;
  const char* message;
};

class MirroredTreeRejects : public testing::TestWithParam<BadGrow> {};

TEST_P(MirroredTreeRejects, NamingFieldValueAndWhatWasExpected) {
  MirroredTree verifier({1, 2, 3});
  const Result<Received> received = verifier.receive(GetParam().grow, kLimits);
  ASSERT_FALSE(received.ok());
  EXPECT_EQ(received.status().code(), GetParam().code);
  EXPECT_THAT(received.status().message(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Bad, MirroredTreeRejects,
    testing::Values(
        BadGrow{"SkippedId",
                {2, 3, {}},
                StatusCode::kInvalidArgument,
                "Grow.first_id: 2; expected the next id, 1"},
        BadGrow{
            "ReplayedId", {0, 3, {{5, 0, 0}}}, StatusCode::kInvalidArgument, "Grow.first_id: 0"},
        BadGrow{"ParentNeverSent",
                {1, 3, {{5, 0, 0}, {5, 2, 0}}},
                StatusCode::kInvalidArgument,
                "Grow.parents: 2 at id 2"},
        BadGrow{"ParentHuge",
                {1, 3, {{5, 0xffffffffu, 0}}},
                StatusCode::kInvalidArgument,
                "names a node that was never sent"},
        BadGrow{"AnchorBeyondTheEnd", {1, 4, {}}, StatusCode::kFailedPrecondition, "its end is 3"},
        BadGrow{"AnchorNegative", {1, -1, {}}, StatusCode::kInvalidArgument, "expected 0 to 3"},
        BadGrow{"TokenNegative",
                {1, 3, {{-1, 0, 0}}},
                StatusCode::kInvalidArgument,
                "Grow.tokens: -1 at id 1; expected 0 to 99"},
        BadGrow{"TokenTooLarge",
                {1, 3, {{100, 0, 0}}},
                StatusCode::kInvalidArgument,
                "Grow.tokens: 100"},
        BadGrow{"TokenOfADeadNodeTooLarge",
                {1, 0, {{9, 0, 0}, {100, 1, 0}}},
                StatusCode::kInvalidArgument,
                "Grow.tokens: 100 at id 2"},
        BadGrow{"TooManyNodes",
                {1, 3, std::vector<GrowNode>(9)},
                StatusCode::kInvalidArgument,
                "node 9 would be living node number 9; expected at most 8"}),
    [](const auto& info) { return info.param.what; });

TEST(MirroredTree, CountsAliasesAgainstTheLimitOfLivingNodes) {
  MirroredTree verifier({1});
  ASSERT_TRUE(verifier.receive({1, 1, std::vector<GrowNode>(8, {5, 0, 0})}, kLimits).ok());
  EXPECT_EQ(verifier.size(), 1u);
  const Result<Received> more = verifier.receive({9, 1, {{5, 0, 0}}}, kLimits);
  ASSERT_FALSE(more.ok());
  EXPECT_THAT(more.status().message(), HasSubstr("limits.max_nodes"));
}

TEST(MirroredTree, AMessageMayHoldMoreNodesThanMayLiveIfEnoughAreDeadOnArrival) {
  MirroredTree verifier({1, 2, 3});
  Grow grow{1, 1, std::vector<GrowNode>(20, {9, 0, 0})};  // the text has a 2 there
  for (const TokenId token : {2, 3, 4, 5, 6, 7, 8}) {
    grow.nodes.push_back({token, token == 2 ? 0u : 1u, 0});
  }
  const Result<Received> received = verifier.receive(grow, kLimits);
  ASSERT_TRUE(received.ok()) << received.status().to_string();
  EXPECT_EQ(received->dead, 20u);
  EXPECT_EQ(received->committed, 2u);
  EXPECT_EQ(received->living, 5u);
}

TEST(MirroredTree, RefusesAPeerThatRepeatsCommittedTokensWithoutEnd) {
  MirroredTree verifier({1, 2, 3});
  NodeId next = 1;
  bool refused = false;
  for (int i = 0; i < 10'000 && !refused; ++i) {
    const Grow grow{.first_id = next, .anchor_position = 0, .nodes = {{1, 0, 0}, {1, 0, 0}}};
    next += 2;
    refused = !verifier.receive(grow, kLimits).ok();
  }
  EXPECT_TRUE(refused);
  EXPECT_LT(verifier.ids().runs(), 5'000u);
}

// The edge guesses a and b below the root, c and d below a, and sends a and c.
TEST(MirroredTree, AVerifierInTheSameProcessKnowsWhatElseTheDraftGuessed) {
  Pair pair;
  const NodeIndex a = pair.edge.add(kRoot, 10), b = pair.edge.add(kRoot, 11);
  const NodeIndex c = pair.edge.add(a, 12);
  pair.edge.add(a, 13);
  pair.edge.add(b, 200);
  pair.edge.set_confidence(b, 0.25f);
  pair.carry({a, c});
  const auto tokens = [&](NodeIndex parent) {
    std::vector<TokenId> known;
    for (const DraftCandidate& one : pair.verifier.candidates(parent)) known.push_back(one.token);
    return known;
  };
  EXPECT_THAT(tokens(kRoot), ElementsAre(10, 11));
  EXPECT_EQ(pair.verifier.candidates(kRoot)[1].confidence, 0.25f);
  const NodeIndex at = pair.verifier.child(kRoot, 10);
  EXPECT_THAT(tokens(at), ElementsAre(12, 13));
  EXPECT_THAT(tokens(pair.verifier.child(at, 12)), IsEmpty());
  const NodeIndex below = pair.edge.add(b, 14);
  pair.carry({b, below});
  EXPECT_THAT(tokens(pair.verifier.child(kRoot, 11)), ElementsAre(14))
      << "200 is beyond the target's vocabulary";

  pair.verifier.commit(std::vector<TokenId>{10});
  EXPECT_THAT(tokens(kRoot), ElementsAre(12, 13)) << "the root is a now";
  pair.verifier.commit(std::vector<TokenId>{50});
  EXPECT_THAT(tokens(kRoot), IsEmpty());
}

TEST(MirroredTree, CandidatesOfADeadNodeAreForgotten) {
  Pair pair;
  const NodeIndex a = pair.edge.add(kRoot, 10);
  pair.verifier.commit(std::vector<TokenId>{50});
  EXPECT_EQ(pair.carry({a}).dead, 1u);
  EXPECT_THAT(pair.verifier.candidates(kRoot), IsEmpty());
}

}  // namespace
}  // namespace outrider
