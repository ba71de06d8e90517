// SPDX-License-Identifier: Apache-2.0
#include "common/verify/pass_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using testing::ElementsAreArray;

class PassRunnerTest : public testing::Test {
 protected:
  void expect_row_after(std::size_t row, std::vector<TokenId> text) {
    EXPECT_THAT(runner_.logits(row), ElementsAreArray(model_.logits_after(text))) << "row " << row;
  }

  ToyModel model_;
  std::unique_ptr<KvCache> cache_ = *model_.new_cache(16);
  PassRunner runner_{model_};
};

TEST_F(PassRunnerTest, EveryRowSeesItsOwnPath) {
  // 1 2 - 3 - 4
  //     + 5
  const PassPlan plan{.position = 0, .tokens = {1, 2}, .nodes = {{3, -1}, {5, -1}, {4, 0}}};
  ASSERT_TRUE(runner_.compute(plan, *cache_).ok());
  expect_row_after(0, {1, 2});
  expect_row_after(1, {1, 2, 3});
  expect_row_after(2, {1, 2, 5});
  expect_row_after(3, {1, 2, 3, 4});
}

TEST_F(PassRunnerTest, KeepsThePathThatStandsAndFreesTheRest) {
  ASSERT_TRUE(
      runner_.compute({.position = 0, .tokens = {1}, .nodes = {{3, -1}, {5, -1}, {4, 0}}}, *cache_)
          .ok());
  runner_.keep(0, *cache_);
  EXPECT_EQ(cache_->slots().committed(), 2);
  EXPECT_EQ(cache_->slots().in_use(), 2);
  ASSERT_TRUE(runner_.compute({.position = 2, .tokens = {6}, .nodes = {}}, *cache_).ok());
  expect_row_after(0, {1, 3, 6});
}

TEST_F(PassRunnerTest, WithoutANodeThatStandsKeepsTheTokens) {
  ASSERT_TRUE(runner_.compute({.position = 0, .tokens = {1, 2}, .nodes = {{3, -1}}}, *cache_).ok());
  runner_.keep(-1, *cache_);
  EXPECT_EQ(cache_->slots().committed(), 2);
  EXPECT_EQ(cache_->slots().in_use(), 2);
}

TEST_F(PassRunnerTest, PrefillInChunksGivesTheRowOfTheWhole) {
  ASSERT_TRUE(
      runner_.compute({.position = 0, .tokens = {1, 2}, .nodes = {}, .decides = false}, *cache_)
          .ok());
  runner_.keep(-1, *cache_);
  ASSERT_TRUE(runner_.compute({.position = 2, .tokens = {3}, .nodes = {}}, *cache_).ok());
  expect_row_after(0, {1, 2, 3});
}

TEST_F(PassRunnerTest, AFailedPassLeavesTheCacheAsItWas) {
  ASSERT_TRUE(runner_.compute({.position = 0, .tokens = {1}, .nodes = {}}, *cache_).ok());
  runner_.keep(-1, *cache_);
  model_.fail_next_passes(1);
  EXPECT_FALSE(runner_.compute({.position = 1, .tokens = {2}, .nodes = {{3, -1}}}, *cache_).ok());
  EXPECT_EQ(cache_->slots().in_use(), 1);
  const PassPlan too_many{.position = 1, .tokens = std::vector<TokenId>(16, 2), .nodes = {}};
  EXPECT_EQ(runner_.compute(too_many, *cache_).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_->slots().in_use(), 1);
}

TEST_F(PassRunnerTest, ARowThatNamesNoTokenEndsThePassByItsNumber) {
  ASSERT_TRUE(runner_.compute({.position = 0, .tokens = {1}, .nodes = {}}, *cache_).ok());
  runner_.keep(-1, *cache_);
  model_.spoil_next_passes(1);
  // A chunk of a prefill wants no logits, so there is nothing to find.
  ASSERT_TRUE(
      runner_.compute({.position = 1, .tokens = {4}, .nodes = {}, .decides = false}, *cache_).ok());
  runner_.keep(-1, *cache_);
  const Status status =
      runner_.compute({.position = 2, .tokens = {2}, .nodes = {{3, -1}}}, *cache_);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), testing::HasSubstr("row 1, which decides position 4"));
  EXPECT_EQ(cache_->slots().in_use(), 2);
  EXPECT_TRUE(runner_.compute({.position = 2, .tokens = {2}, .nodes = {{3, -1}}}, *cache_).ok());
}

}  // namespace
}  // namespace outrider
