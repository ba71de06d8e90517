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

}  // namespace
}  // namespace outrider
