// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "edge_client/generation/generation_config.h"

namespace outrider {
namespace {

// Where rounds end early it is the most; rounds that go whole are paid for row by row.
TEST(DraftLength, IsWhatWasAskedForOrTheStrategysOwn) {
  AnswerConfig config;
  EXPECT_EQ(draft_length_of(config), 8) << "mirror";
  config.optimize = Optimize::kCost;
  EXPECT_EQ(draft_length_of(config), 4);
  config = {};
  config.strategy = Strategy::kSd;
  EXPECT_EQ(draft_length_of(config), 4);
  config.gamma = 6;
  EXPECT_EQ(draft_length_of(config), 6);
}

TEST(OfflineConfig, TreesAreForThoseWhoAskForNoStrategy) {
  AnswerConfig config;
  config.offline_tree = TreeKind::kOutrider;
  EXPECT_EQ(strategy_of(config), Strategy::kMirror);
  EXPECT_EQ(strategy_of(offline_config(config)), Strategy::kSd);
  EXPECT_EQ(offline_config(config).tree.kind, TreeKind::kOutrider);
  config.strategy = Strategy::kMirror;
  EXPECT_EQ(offline_config(config).tree.kind, TreeKind::kChain);
  EXPECT_EQ(strategy_of(offline_config(config)), Strategy::kMirror);
}

}  // namespace
}  // namespace outrider
