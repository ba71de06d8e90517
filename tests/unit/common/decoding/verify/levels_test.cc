// Sessions that name a level of an elastic target. The toy model computes all levels alike; what
// levels compute is tests/e2e/elastic_test.py's. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/unit/common/decoding/verify/sessions_fixture.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LevelsTest : public SessionsTest {
 protected:
  LevelsTest() {
    ModelInfo small = model_.info();
    small.name += "@60";
    small.fingerprint = "f60";
    small.arithmetic_id = "a60";
    ModelInfo full = model_.info();
    full.name += "@100";
    options_.levels = {full, small};
  }
  static Open of_level(const std::string& level) {
    Open asked = open_message(long_text(5));
    asked.level = level;
    return asked;
  }
};

TEST_F(LevelsTest, ASessionIsOpenedByTheLevelThatItNames) {
  open(1, of_level("60"));
  open(2, of_level(""));
  finish_all();
  const Opened small = heard<Opened>(1).at(0), full = heard<Opened>(2).at(0);
  EXPECT_EQ(small.level, "60");
  EXPECT_EQ(small.model_name, model_.info().name + "@60");
  EXPECT_EQ(small.fingerprint, "f60");
  EXPECT_EQ(small.arithmetic_id, "a60");
  EXPECT_EQ(full.level, "100");
  EXPECT_EQ(full.model_name, model_.info().name);
  EXPECT_EQ(full.fingerprint, model_.info().fingerprint);
}

TEST_F(LevelsTest, OtherLevelsAreRefusedWithThoseThatThereAre) {
  open(1, of_level("61"));
  ASSERT_TRUE(ended(1).has_value());
  EXPECT_EQ(ended(1)->code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(ended(1)->message(), AllOf(HasSubstr("\"61\""), HasSubstr("it has 100, 60")));
}

TEST_F(LevelsTest, WhatAReconnectExpectsIsComparedWithTheLevel) {
  Open again = of_level("60");
  again.expected_fingerprint = "f60";
  again.expected_arithmetic_id = "a60";
  open(1, again);
  EXPECT_FALSE(ended(1).has_value());
  again.level = "100";
  open(2, again);
  ASSERT_TRUE(ended(2).has_value());
  EXPECT_THAT(ended(2)->message(), HasSubstr("another model"));
}

TEST_F(LevelsTest, NoLevelBeginsWithTheKeysAndValuesOfAnother) {
  options_.max_concurrent_sessions = 4;
  const auto cached = [this](StreamId stream, const std::string& level) {
    Open asked = of_level(level);
    asked.prefix = long_text(40);
    asked.end_position = 44;
    open(stream, asked, kAlice);
    finish_all();
    return heard<Usage>(stream).at(0).cached_tokens;
  };
  EXPECT_EQ(cached(1, "60"), 0u);
  EXPECT_EQ(cached(2, "100"), 0u);
  EXPECT_GT(cached(3, "60"), 0u);
}

TEST_F(LevelsTest, ATargetWithoutLevelsKnowsItsOwnName) {
  ModelInfo small = model_.info();
  EXPECT_EQ(make_targets(small, {}).at(0).level, "");
  small.name = "robot@home@60";
  const std::vector<Target> targets = make_targets(small, {});
  EXPECT_EQ(targets.at(0).level, "60");
  EXPECT_EQ(*find_level(targets, "60"), 0u);
  EXPECT_EQ(*find_level(targets, ""), 0u);
  EXPECT_THAT(find_level(targets, "70").status().message(), HasSubstr("it has 60"));
  EXPECT_THAT(find_level(make_targets(model_.info(), {}), "70").status().message(),
              HasSubstr("and no other"));
}

}  // namespace
}  // namespace outrider
