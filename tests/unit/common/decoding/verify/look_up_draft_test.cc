// A verifier's own drafts, in the tree that it shares with the edge.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/look_up_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Position kFar = std::numeric_limits<Position>::max();

class LookUpDraftTest : public testing::Test {
 protected:
  static RowBudget within(std::size_t nodes, Position last_position = kFar) {
    return {.nodes = nodes, .last_position = last_position};
  }
  void receive(std::vector<GrowNode> nodes) {
    const NodeId first = tree_.ids().next_id();
    ASSERT_TRUE(
        tree_.receive({first, tree_.end(), std::move(nodes)}, {.vocab_size = 100, .max_nodes = 64})
            .ok());
  }
  // The tokens of the only chain of nodes without ids.
  std::vector<TokenId> own_chain() const {
    std::vector<TokenId> chain;
    NodeIndex at = kRoot;
    while (true) {
      NodeIndex next = kNoNode;
      for (const NodeIndex child : tree_.children(at)) {
        if (at == kRoot && tree_.node(child).id != 0) continue;
        EXPECT_EQ(next, kNoNode) << "two branches";
        next = child;
      }
      if (next == kNoNode) return chain;
      if (tree_.node(next).id == 0) chain.push_back(tree_.node(next).token);
      at = next;
    }
  }

  MirroredTree tree_{{1, 2, 3, 4, 5, 6, 9, 1, 2, 3}};
  LookUpDraft draft_{100};
};

TEST_F(LookUpDraftTest, GoesOnAsTheTextDidBefore) {
  draft_.grow(tree_, within(3), 0.01);
  EXPECT_THAT(own_chain(), ElementsAre(4, 5, 6));
}

TEST_F(LookUpDraftTest, GuessesNothingThatIsNotWorthItsRow) {
  draft_.grow(tree_, within(32), 0.4);
  const std::size_t sure = tree_.size();
  EXPECT_GE(sure, 1u);
  tree_.remove_all_unsent();
  LookUpDraft(100).grow(tree_, within(32), 0.99);
  EXPECT_EQ(tree_.size(), 0u);
}

TEST_F(LookUpDraftTest, GuessesNothingBehindTheLastPosition) {
  draft_.grow(tree_, within(32, 11), 0.01);
  EXPECT_THAT(own_chain(), ElementsAre(4, 5));
}

TEST_F(LookUpDraftTest, GoesOnBehindWhatTheEdgeSent) {
  receive({{4, 0, 255}});
  draft_.grow(tree_, within(2), 0.01);
  const NodeIndex edges = tree_.child(kRoot, 4);
  EXPECT_EQ(tree_.node(edges).id, 1u);
  const NodeIndex own = tree_.child(edges, 5);
  ASSERT_NE(own, kNoNode);
  EXPECT_EQ(tree_.node(own).id, 0u);
}

TEST_F(LookUpDraftTest, ANodeThatTheEdgeSendsAsWellIsTheEdges) {
  draft_.grow(tree_, within(2), 0.01);
  receive({{4, 0, 51}});
  const NodeIndex node = tree_.child(kRoot, 4);
  EXPECT_EQ(tree_.node(node).id, 1u);
  EXPECT_FLOAT_EQ(tree_.node(node).confidence, 0.2f);
  EXPECT_EQ(tree_.size(), 2u) << "the same node, not another";
}

TEST_F(LookUpDraftTest, ItsNodesBecomeTextAsTheEdgesDo) {
  draft_.grow(tree_, within(3), 0.01);
  const std::vector<TreeNode> walked = tree_.commit(std::vector<TokenId>{4, 5});
  EXPECT_EQ(walked.size(), 2u);
  EXPECT_EQ(tree_.size(), 1u) << "what hangs below stays";
  EXPECT_THAT(tree_.ids().living(), IsEmpty());
}

TEST_F(LookUpDraftTest, DraftsOnceForATextAndItsNodes) {
  draft_.grow(tree_, within(2), 0.01);
  draft_.grow(tree_, within(2), 0.01);
  EXPECT_THAT(own_chain(), ElementsAre(4, 5)) << "the same text and the same nodes: nothing to do";
  receive({{4, 0, 255}});
  draft_.grow(tree_, within(2), 0.01);
  EXPECT_EQ(tree_.size(), 4u);
  tree_.remove_all_unsent();
  tree_.commit(std::vector<TokenId>{8});
  draft_.grow(tree_, within(2), 0.01);
  EXPECT_EQ(tree_.size(), 0u) << "3 8 never came before";
}

TEST_F(LookUpDraftTest, GoesOnBehindWhatAModelGuessed) {
  draft_.grow(tree_, within(1), 0.01);
  tree_.set_confidence(tree_.add(tree_.add(kRoot, 9), 1), 0.9f);
  tree_.set_confidence(tree_.child(kRoot, 9), 0.9f);
  draft_.grow(tree_, within(8), 0.01);
  const NodeIndex guessed = tree_.child(tree_.child(kRoot, 9), 1);
  EXPECT_NE(tree_.child(guessed, 2), kNoNode) << "9 1 was followed by 2";
}

}  // namespace
}  // namespace outrider
