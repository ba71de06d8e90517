// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/pass_runner.h"

#include <gmock/gmock.h>

#include "tests/unit/common/decoding/verify/scheduler_fixture.h"

namespace outrider {
namespace {

using testing::ElementsAre;

// A root with the children 0 and 1; 2 and 3 stand below 0, 4 below 2. Node n's row is n + 1.
PassPlan tree_plan(std::vector<float> confidences) {
  PassPlan plan;
  plan.tokens = {7};
  const std::vector<std::int32_t> parents = {-1, -1, 0, 0, 2};
  for (std::size_t i = 0; i < parents.size(); ++i) {
    plan.nodes.push_back({.token = 1, .parent = parents[i], .confidence = confidences.at(i)});
  }
  return plan;
}

TEST(RowsAheadTest, TheLikeliestPathIsAskedForTogether) {
  const PassPlan plan = tree_plan({0.9f, 0.05f, 0.8f, 0.1f, 0.9f});
  EXPECT_THAT(rows_ahead(plan, 0, std::vector<bool>(6)), ElementsAre(0, 1, 3, 5));
}

TEST(RowsAheadTest, AnUnlikelyNodeIsNotAskedForAheadOfItsTurn) {
  const PassPlan plan = tree_plan({0.9f, 0.05f, 0.3f, 0.2f, 0.9f});  // 0.9 * 0.3 is too little
  EXPECT_THAT(rows_ahead(plan, 0, std::vector<bool>(6)), ElementsAre(0, 1));
  EXPECT_THAT(rows_ahead(plan, 3, std::vector<bool>(6)), ElementsAre(3, 5));
}

TEST(RowsAheadTest, RowsThatAreThereOrEndedAreLeftOut) {
  PassPlan plan = tree_plan({0.9f, 0.9f, 0.9f, 0.9f, 0.9f});
  std::vector<bool> there(6);
  there[1] = true;
  plan.nodes[2].ended = true;
  const std::vector<std::size_t> rows = rows_ahead(plan, 0, there);
  EXPECT_THAT(rows, ElementsAre(0, 2)) << "what stands below rows that are there waits for a walk";
}

TEST(RowsAheadTest, AtMostFourAtOnce) {
  PassPlan plan;
  plan.tokens = {7};
  for (std::int32_t i = 0; i < 12; ++i) plan.nodes.push_back({.token = 1, .parent = i - 1});
  EXPECT_THAT(rows_ahead(plan, 2, std::vector<bool>(13)), ElementsAre(2, 3, 4, 5));
}

class LazyLogitsWalkTest : public SchedulerTest {};

TEST_F(LazyLogitsWalkTest, FewRowsAreAskedForAndTheTextIsTheSame) {
  options_.logits_on_demand = true;
  Open asked = open_message({1, 2, 3}, 40);
  asked.sampling.temperature = 0.8f;
  asked.seed = 3;
  open(1, asked);
  std::size_t rows = 0;
  while (turn() != 0 && scheduler().session(1) != nullptr && !ended(1)) {
    const MirroredTree& tree = scheduler().session(1)->tree();
    std::vector<GrowNode> nodes;  // every token of eight below the root
    for (TokenId token = 0; token < 8; ++token) nodes.push_back({token, 0, 16});
    scheduler().receive(1, {tree.end(), 0, Grow{tree.ids().last_id() + 1, tree.end(), nodes}},
                        now());
    rows += 1 + nodes.size();
  }
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_GT(model_.rows_demanded(), 20u);
  EXPECT_LT(model_.rows_demanded(), rows / 3) << "of nine rows a walk comes to two";
}

TEST_F(LazyLogitsWalkTest, ARowThatNothingCanBeChosenFromEndsTheStreamAsElsewhere) {
  options_.logits_on_demand = true;
  open(1, open_message({1, 2, 3}));
  model_.spoil_next_passes(8);
  turns(4);
  ASSERT_TRUE(ended(1).has_value());
  EXPECT_EQ(ended(1)->code(), StatusCode::kDataLoss) << ended(1)->to_string();
}

TEST_F(LazyLogitsWalkTest, SettingsThatForbidEveryTokenEndTheirOwnAnswerAlone) {
  for (const bool on_demand : {false, true}) {
    scheduler_.reset();
    events_.clear();
    options_.logits_on_demand = on_demand;
    options_.max_batched_rows = 64;
    Open forbidding = open_message({1, 2, 3});
    ChoiceSettings settings;
    for (TokenId token = 0; token < 8; ++token) settings.bad_words.push_back({token});
    forbidding.set_settings(settings, 3);
    const Open other = open_message({4, 5});
    open(1, forbidding);
    open(2, other);
    for (int i = 0; i < 20 && !ended(2); ++i) turn();
    ASSERT_TRUE(ended(1));
    EXPECT_EQ(ended(1)->code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(ended(1)->message(),
                testing::AllOf(testing::HasSubstr("bad_words"), testing::HasSubstr("position 3")));
    EXPECT_EQ(answer(2), expected(other));
  }
}

}  // namespace
}  // namespace outrider
