// The rules on a tree that is worked out by hand: values are products of the edges' scores.
//
//   root -0.6- 0 -0.5- 2 -0.9- 5        0: 0.6   2: 0.3    5: 0.27
//     |         `-0.1- 3                         3: 0.06
//     `---0.3- 1 -0.2- 4                1: 0.3   4: 0.06
//
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/branch_pruner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::Each;
using testing::ElementsAre;

const std::vector<BranchNode> kTree = {{-1, 0.6}, {-1, 0.3}, {0, 0.5},
                                       {0, 0.1},  {1, 0.2},  {2, 0.9}};

TEST(KeepBranches, EndsWhatIsUnlikelyAndWhatFollowsIt) {
  EXPECT_THAT(keep_branches(kTree, 0.1), ElementsAre(1, 1, 1, 0, 0, 1));
  EXPECT_THAT(keep_branches(kTree, 0.05), Each(1));
  const std::vector<BranchNode> chain = {{-1, 0.9}, {-1, 0.01}, {-1, 0.01}, {2, 1}, {0, 0.9}};
  EXPECT_THAT(keep_branches(chain, 0.1), ElementsAre(1, 1, 0, 0, 1))
      << "a sure child of an ended node ends";
}

TEST(KeepBranches, TheBackboneStaysAndTheRootsBestTwo) {
  EXPECT_THAT(keep_branches(kTree, 0.99), ElementsAre(1, 1, 1, 0, 0, 1));
  const std::vector<BranchNode> wide = {{-1, 0.1}, {-1, 0.4}, {-1, 0.2}, {1, 0.01}};
  EXPECT_THAT(keep_branches(wide, 0.99), ElementsAre(0, 1, 1, 1));
}

TEST(KeepBranches, AChainIsItsOwnBackbone) {
  const std::vector<BranchNode> chain = {{-1, 0.01}, {0, 0.01}, {1, 0.01}};
  EXPECT_THAT(keep_branches(chain, 0.5), Each(1));
}

TEST(KeepBranches, ACutThatLeavesLessThanAQuarterIsRefused) {
  std::vector<BranchNode> wide(9, BranchNode{-1, 0.01});
  EXPECT_THAT(keep_branches(wide, 0.5), Each(1));
  wide.pop_back();
  EXPECT_THAT(keep_branches(wide, 0.5), ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
}

// Two likely nodes and nine unlikely leaves below the second: three nodes of twelve would be left,
// but two leaves of ten.
TEST(KeepBranches, ACutThatLeavesLessThanAQuarterOfTheLeavesIsRefused) {
  std::vector<BranchNode> wide = {{-1, 0.5}, {-1, 0.4}, {0, 0.9}};
  for (int i = 0; i < 8; ++i) wide.push_back({1, 0.01});
  EXPECT_THAT(keep_branches(wide, 0.1), Each(1)) << "2 of 9 leaves";
  wide.pop_back();
  EXPECT_THAT(keep_branches(wide, 0.1), ElementsAre(1, 1, 1, 0, 0, 0, 0, 0, 0, 0)) << "2 of 8";
}

TEST(KeepBranches, NoNodesNoTrouble) {
  EXPECT_TRUE(keep_branches({}, 0.5).empty());
}

}  // namespace
}  // namespace outrider
