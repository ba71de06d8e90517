// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "edge_client/generation/generation_config.h"

namespace outrider {
namespace {

// Where rounds end early it is the most; rounds that go whole are paid for row by row.
TEST(DraftLength, IsWhatWasAskedForOrTheStrategysOwn) {
  EXPECT_EQ(SpeculationOptions{}.draft_length(), 8) << "mirror";
  EXPECT_EQ(SpeculationOptions{.optimize = Optimize::kCost}.draft_length(), 4);
  SpeculationOptions options{.strategy = Strategy::kSd};
  EXPECT_EQ(options.draft_length(), 4);
  options.gamma = 6;
  EXPECT_EQ(options.draft_length(), 6);
}

TEST(OfflineSpeculation, TreesAreForThoseWhoAskForNoStrategy) {
  AnswerConfig config;
  config.offline_tree = TreeKind::kOutrider;
  EXPECT_EQ(config.speculation.chosen(), Strategy::kMirror);
  EXPECT_EQ(offline_speculation(config).chosen(), Strategy::kSd);
  EXPECT_EQ(offline_speculation(config).tree.kind, TreeKind::kOutrider);
  config.speculation.strategy = Strategy::kMirror;
  EXPECT_EQ(offline_speculation(config).tree.kind, TreeKind::kChain);
  EXPECT_EQ(offline_speculation(config).chosen(), Strategy::kMirror);
}

}  // namespace
}  // namespace outrider
