// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/pass_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using testing::ElementsAreArray;

class PassRunnerTest : public testing::Test {
 protected:
  // Alone in a pass.
  Status compute(PassPlan plan) {
    rider_ = {.plan = std::move(plan), .cache = cache_.get()};
    runner_.place({&rider_, 1});
    runner_.compute({&rider_, 1});
    return rider_.status;
  }
  void expect_row_after(const Rider& rider, std::size_t row, std::vector<TokenId> text) {
    EXPECT_THAT(runner_.logits(rider, row), ElementsAreArray(model_.logits_after(text)))
        << "row " << row;
  }
  void expect_row_after(std::size_t row, std::vector<TokenId> text) {
    expect_row_after(rider_, row, std::move(text));
  }

  ToyModel model_;
  std::unique_ptr<KvCache> cache_ = *model_.new_cache(16);
  PassRunner runner_{model_};
  Rider rider_;
};

TEST_F(PassRunnerTest, EveryRowSeesItsOwnPath) {
  // 1 2 - 3 - 4
  //     + 5
  ASSERT_TRUE(compute({.position = 0, .tokens = {1, 2}, .nodes = {{3, -1}, {5, -1}, {4, 0}}}).ok());
  expect_row_after(0, {1, 2});
  expect_row_after(1, {1, 2, 3});
  expect_row_after(2, {1, 2, 5});
  expect_row_after(3, {1, 2, 3, 4});
}

TEST_F(PassRunnerTest, KeepsThePathThatStandsAndFreesTheRest) {
  ASSERT_TRUE(compute({.position = 0, .tokens = {1}, .nodes = {{3, -1}, {5, -1}, {4, 0}}}).ok());
  runner_.keep(rider_, 0);
  EXPECT_EQ(cache_->slots().committed(), 2);
  EXPECT_EQ(cache_->slots().in_use(), 2);
  ASSERT_TRUE(compute({.position = 2, .tokens = {6}, .nodes = {}}).ok());
  expect_row_after(0, {1, 3, 6});
}

TEST_F(PassRunnerTest, WithoutANodeThatStandsKeepsTheTokens) {
  ASSERT_TRUE(compute({.position = 0, .tokens = {1, 2}, .nodes = {{3, -1}}}).ok());
  runner_.keep(rider_, -1);
  EXPECT_EQ(cache_->slots().committed(), 2);
  EXPECT_EQ(cache_->slots().in_use(), 2);
}

TEST_F(PassRunnerTest, PrefillInChunksGivesTheRowOfTheWhole) {
  ASSERT_TRUE(compute({.position = 0, .tokens = {1, 2}, .nodes = {}, .decides = false}).ok());
  runner_.keep(rider_, -1);
  ASSERT_TRUE(compute({.position = 2, .tokens = {3}, .nodes = {}}).ok());
  expect_row_after(0, {1, 2, 3});
}

TEST_F(PassRunnerTest, AFailedPassLeavesTheCacheAsItWas) {
  ASSERT_TRUE(compute({.position = 0, .tokens = {1}, .nodes = {}}).ok());
  runner_.keep(rider_, -1);
  model_.fail_next_passes(1);
  EXPECT_FALSE(compute({.position = 1, .tokens = {2}, .nodes = {{3, -1}}}).ok());
  EXPECT_EQ(cache_->slots().in_use(), 1);
  const PassPlan too_many{.position = 1, .tokens = std::vector<TokenId>(16, 2), .nodes = {}};
  EXPECT_EQ(compute(too_many).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(cache_->slots().in_use(), 1);
}

TEST_F(PassRunnerTest, ARowThatNamesNoTokenEndsThePassByItsNumber) {
  ASSERT_TRUE(compute({.position = 0, .tokens = {1}, .nodes = {}}).ok());
  runner_.keep(rider_, -1);
  model_.spoil_next_passes(1);
  // A chunk of a prefill wants no logits, so there is nothing to find.
  ASSERT_TRUE(compute({.position = 1, .tokens = {4}, .nodes = {}, .decides = false}).ok());
  runner_.keep(rider_, -1);
  const Status status = compute({.position = 2, .tokens = {2}, .nodes = {{3, -1}}});
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), testing::HasSubstr("row 1, which decides position 4"));
  EXPECT_EQ(cache_->slots().in_use(), 2);
  EXPECT_TRUE(compute({.position = 2, .tokens = {2}, .nodes = {{3, -1}}}).ok());
}

// --- several riders in one pass -----------------------------------------------------------------

class RidersTest : public PassRunnerTest {
 protected:
  // A tree, a chunk of a prefill, and a text without nodes, each in a cache of its own.
  RidersTest() {
    riders_[0].plan = {.position = 0, .tokens = {1, 2}, .nodes = {{3, -1}, {4, 0}}};
    riders_[1].plan = {.position = 0, .tokens = {5, 6, 7}, .nodes = {}, .decides = false};
    riders_[2].plan = {.position = 0, .tokens = {3}, .nodes = {}};
    for (std::size_t i = 0; i < riders_.size(); ++i) riders_[i].cache = caches_[i].get();
  }

  std::array<std::unique_ptr<KvCache>, 3> caches_ = {*model_.new_cache(16), *model_.new_cache(16),
                                                     *model_.new_cache(16)};
  std::array<Rider, 3> riders_;
};

TEST_F(RidersTest, EachHasRowsAndACacheOfItsOwn) {
  runner_.place(riders_);
  runner_.compute(riders_);
  for (const Rider& rider : riders_) EXPECT_TRUE(rider.status.ok());
  expect_row_after(riders_[0], 0, {1, 2});
  expect_row_after(riders_[0], 2, {1, 2, 3, 4});
  expect_row_after(riders_[2], 0, {3});
  runner_.keep(riders_[0], 1);
  runner_.keep(riders_[1], -1);
  runner_.keep(riders_[2], -1);
  EXPECT_EQ(caches_[0]->slots().committed(), 4);
  EXPECT_EQ(caches_[1]->slots().committed(), 3);
  EXPECT_EQ(caches_[2]->slots().committed(), 1);
}

TEST_F(RidersTest, OneWithoutRoomLeavesTheOthersTheirPass) {
  riders_[0].plan.tokens = std::vector<TokenId>(16, 2);  // and two nodes
  runner_.place(riders_);
  runner_.compute(riders_);
  EXPECT_EQ(riders_[0].status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(caches_[0]->slots().in_use(), 0);
  EXPECT_TRUE(riders_[1].status.ok());
  EXPECT_TRUE(riders_[2].status.ok());
  expect_row_after(riders_[2], 0, {3});
}

TEST_F(RidersTest, ARowThatNamesNoTokenEndsItsRiderAndNoOther) {
  model_.spoil_next_passes(1);  // its last row
  runner_.place(riders_);
  runner_.compute(riders_);
  EXPECT_EQ(riders_[2].status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(caches_[2]->slots().in_use(), 0);
  EXPECT_TRUE(riders_[0].status.ok());
  EXPECT_TRUE(riders_[1].status.ok());
  expect_row_after(riders_[0], 1, {1, 2, 3});
}

TEST_F(RidersTest, LogitsOnDemandAreThoseOfTheRiderThatAsks) {
  PassRunner lazy(model_, true);
  lazy.place(riders_);
  lazy.compute(riders_);
  ASSERT_TRUE(lazy.demands());
  ASSERT_TRUE(lazy.demand(riders_[2], std::vector<std::size_t>{0}).ok());
  ASSERT_TRUE(lazy.demand(riders_[0], std::vector<std::size_t>{2}).ok());
  EXPECT_THAT(lazy.logits(riders_[2], 0),
              ElementsAreArray(model_.logits_after(std::vector<TokenId>{3})));
  EXPECT_THAT(lazy.logits(riders_[0], 2),
              ElementsAreArray(model_.logits_after(std::vector<TokenId>{1, 2, 3, 4})));
  lazy.end_demands();
  EXPECT_EQ(model_.rows_demanded(), 2u);
}

}  // namespace
}  // namespace outrider
