// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "common/decoding/drafting/draft_engine.h"
#include "tests/sim/toy_draft.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Ids = std::vector<TokenId>;

// Drafter and engine, joined as the shell joins them, over a toy model.
class DraftingTest : public testing::Test {
 protected:
  void begin(std::size_t gamma, const Ids& prompt, Position context = 1000, int chunk = 64) {
    const DrafterOptions options{
        .max_positions = context, .vocab_size = model_.info().vocab_size, .prefill_chunk = chunk};
    drafter_ = std::make_unique<Drafter>(options);
    gamma_ = gamma;
    engine_ = *DraftEngine::create(model_, clock_, 1064);
    engine_->set_choice({sampling_, seed_});
    drafter_->restart(prompt);
    text_ = prompt;
  }

  void run(const DraftStep& step) {
    Result<DraftStepDone> done = engine_->run(step);
    ASSERT_TRUE(done.ok()) << done.status().to_string();
    drafter_->finish_step(*done);
  }

  std::optional<DraftStep> grow(Position max_depth = 100) {
    return drafter_->grow(RoundPolicy({.length = gamma_}), max_depth);
  }

  void grow_all(Position max_depth = 100) {
    while (std::optional<DraftStep> step = grow(max_depth)) run(*step);
  }

  Ids round(Position max_depth = 100) {
    grow_all(max_depth);
    Ids tokens;
    for (const GrowNode& node : drafter_->nodes().send_round({.length = 64}, 64, 100).nodes)
      tokens.push_back(node.token);
    return tokens;
  }

  void commit(const Ids& tokens) {
    drafter_->commit(tokens);
    text_.insert(text_.end(), tokens.begin(), tokens.end());
  }

  // The tokens that the model itself chooses next, one by one.
  Ids expected(std::size_t count) const { return after(text_, count); }
  Ids after(const Ids& text, std::size_t count) const {
    const auto end = static_cast<Position>(text.size() + count);
    const Ids all = target_.decode(text, end, sampling_, seed_);
    return {all.begin() + static_cast<std::ptrdiff_t>(text.size()), all.end()};
  }

  ManualClock clock_;
  ToyModel target_{13};
  ToyDraft model_{target_};
  SamplingParams sampling_;
  std::uint64_t seed_ = 7;
  std::size_t gamma_ = 4;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DraftEngine> engine_;
  Ids text_;
};

TEST_F(DraftingTest, AChainIsWhatTheDraftAloneWouldWrite) {
  begin(4, {1, 2, 3});
  EXPECT_EQ(round(), expected(4));
}

TEST_F(DraftingTest, TheDraftGuessesWithTheNoiseOfTheTarget) {
  sampling_ = {.temperature = 0.8f, .top_k = 6};
  begin(6, {1, 2, 3});
  EXPECT_EQ(round(), expected(6));
}

TEST_F(DraftingTest, EveryKindOfVerdictLeavesTheDraftAtTheCommittedText) {
  begin(4, {1, 2, 3});
  for (const std::size_t accepted : {0, 1, 2, 3, 4, 2, 0, 4, 4, 1}) {
    Ids tokens = round();
    ASSERT_EQ(tokens, expected(4)) << "with " << accepted << " accepted next";
    tokens.resize(accepted);
    // The correction is never the draft's own next guess.
    Ids text = text_;
    text.insert(text.end(), tokens.begin(), tokens.end());
    const Ids next = after(text, 1);
    tokens.push_back((next[0] + 1) % model_.info().vocab_size);
    commit(tokens);
  }
}

TEST_F(DraftingTest, AVerdictInTheMiddleOfARoundKeepsWhatItConfirms) {
  begin(4, {1, 2, 3});
  run(*grow());
  run(*grow());
  const Ids two = expected(2);
  commit({two[0]});
  EXPECT_EQ(drafter_->tree().size(), 1u);
  EXPECT_EQ(round(), expected(4));
}

TEST_F(DraftingTest, AVerdictWhileTheStepOfItsTokenRunsUsesThatStep) {
  begin(4, {1, 2, 3});
  run(*grow());
  const std::optional<DraftStep> step = grow();
  commit(expected(1));  // the row that the step runs
  EXPECT_EQ(grow(), std::nullopt);
  run(*step);
  const std::size_t rows_before = model_.rows_run();
  EXPECT_EQ(round(), expected(4));
  EXPECT_EQ(model_.rows_run() - rows_before, 3u) << "no row is run twice";
}

TEST_F(DraftingTest, AVerdictWhileADyingStepRunsDropsItsResult) {
  begin(4, {1, 2, 3});
  run(*grow());
  const std::optional<DraftStep> step = grow();
  commit({(expected(1)[0] + 1) % 13, 5});
  run(*step);
  EXPECT_EQ(round(), expected(4));
}

TEST_F(DraftingTest, AStepOfDeadRowsMayBeAbandoned) {
  begin(4, {1, 2, 3});
  run(*grow());
  const std::optional<DraftStep> step = grow();
  EXPECT_FALSE(drafter_->step_is_obsolete());
  commit({(expected(1)[0] + 1) % 13, 5});
  EXPECT_TRUE(drafter_->step_is_obsolete());
  const std::atomic<bool> abandoned = true;
  const Result<DraftStepDone> done = engine_->run(*step, &abandoned);
  ASSERT_TRUE(done.ok()) << done.status().to_string();
  EXPECT_TRUE(done->abandoned);
  drafter_->finish_step(*done);
  EXPECT_FALSE(drafter_->step_is_obsolete());
  EXPECT_EQ(round(), expected(4));
}

TEST_F(DraftingTest, AStepThatRunsTextOrLivingRowsIsNotInVain) {
  begin(4, {1, 2, 3});
  EXPECT_TRUE(grow().has_value());
  commit({5});
  EXPECT_FALSE(drafter_->step_is_obsolete()) << "it reads the prompt";
  begin(4, {1, 2, 3});
  run(*grow());
  EXPECT_TRUE(grow().has_value());
  commit(expected(1));
  EXPECT_FALSE(drafter_->step_is_obsolete()) << "its row is text by now";
}

TEST_F(DraftingTest, AVerdictWhileThePromptIsReadMakesItsGuessStale) {
  begin(4, {1, 2, 3});
  const std::optional<DraftStep> step = grow();
  commit({(expected(1)[0] + 1) % 13});
  run(*step);
  EXPECT_EQ(drafter_->tree().size(), 0u);
  EXPECT_EQ(round(), expected(4));
}

TEST_F(DraftingTest, TwoVerdictsDuringOneStepStillLeadToTheText) {
  begin(4, {1, 2, 3});
  run(*grow());
  const std::optional<DraftStep> step = grow();
  commit(expected(1));
  commit({(expected(1)[0] + 1) % 13});
  run(*step);
  EXPECT_EQ(round(), expected(4));
}

TEST_F(DraftingTest, ALongPromptIsReadInChunks) {
  Ids prompt;
  for (int i = 0; i < 200; ++i) prompt.push_back(i % 13);
  begin(2, prompt, 1000, 64);
  EXPECT_EQ(round(), expected(2));
  EXPECT_EQ(model_.passes(), 4 + 1);
}

TEST_F(DraftingTest, AnotherTurnRunsOnlyTheRowsThatDiffer) {
  begin(3, {1, 2, 3, 4, 5});
  round();
  commit({6, 7});
  round();
  const std::size_t rows_before = model_.rows_run();
  text_ = {1, 2, 3, 4, 5, 6, 8, 9};
  drafter_->restart(text_);
  EXPECT_EQ(round(), expected(3));
  EXPECT_EQ(model_.rows_run() - rows_before, 2u + 2u) << "two new tokens, two chain rows";
}

TEST_F(DraftingTest, ATurnThatBeginsWhileAStepRunsIgnoresIt) {
  begin(3, {1, 2, 3});
  run(*grow());
  const std::optional<DraftStep> step = grow();
  text_ = {1, 2, 9};
  drafter_->restart(text_);
  run(*step);
  EXPECT_EQ(round(), expected(3));
}

TEST_F(DraftingTest, NodesAreSentOnceAndParentsFirst) {
  begin(3, {1, 2, 3});
  grow_all();
  const Grow grow = drafter_->nodes().send_round({.length = 64}, 64, 100);
  EXPECT_EQ(grow.first_id, 1u);
  EXPECT_EQ(grow.anchor_position, 3);
  ASSERT_THAT(grow.nodes, SizeIs(3));
  EXPECT_EQ(grow.nodes[0].parent, 0u);
  EXPECT_EQ(grow.nodes[1].parent, 1u);
  EXPECT_EQ(grow.nodes[2].parent, 1u);
  EXPECT_THAT(drafter_->nodes().send_round({.length = 64}, 64, 100).nodes, IsEmpty());
}

TEST_F(DraftingTest, NoMoreNodesAreSentThanTheVerifierTakes) {
  begin(5, {1, 2, 3});
  grow_all();
  EXPECT_THAT(drafter_->nodes().send_round({.length = 64}, 2, 100).nodes, SizeIs(2));
  EXPECT_THAT(drafter_->nodes().send_round({.length = 64}, 3, 100).nodes, SizeIs(1))
      << "the first two still live";
}

TEST_F(DraftingTest, TokensOutsideTheTargetsVocabularyAreNotSent) {
  begin(4, {1, 2, 3});
  grow_all();
  const Ids chain = expected(4);
  const auto outside = std::ranges::find(chain, *std::ranges::max_element(chain));
  const Grow grow = drafter_->nodes().send_round({.length = 64}, 64, *outside);
  EXPECT_THAT(grow.nodes, SizeIs(static_cast<std::size_t>(outside - chain.begin())));
}

TEST_F(DraftingTest, NothingIsDraftedBeyondTheUsefulDepth) {
  begin(8, {1, 2, 3});
  EXPECT_THAT(round(2), SizeIs(2));
  begin(8, {1, 2, 3});
  EXPECT_THAT(round(0), IsEmpty());
  EXPECT_EQ(drafter_->exhausted(), std::nullopt);
}

TEST_F(DraftingTest, AFullDraftContextEndsDraftingAndSaysSo) {
  ToyDraft small(target_, 0, 6);
  begin(8, {1, 2, 3, 4}, 6);
  engine_ = *DraftEngine::create(small, clock_, 70);
  EXPECT_THAT(round(), SizeIs(3)) << "positions 4, 5 and, from the last row, 6";
  commit({1, 2});
  EXPECT_THAT(round(), SizeIs(1));
  EXPECT_EQ(drafter_->exhausted(), std::nullopt);
  commit({3});
  EXPECT_THAT(round(), IsEmpty());
  EXPECT_THAT(drafter_->exhausted().value_or(""), HasSubstr("context of 6 tokens is full"));
}

TEST_F(DraftingTest, ATokenThatTheDraftDoesNotHaveEndsDrafting) {
  begin(4, {1, 2, 3});
  commit({13});
  EXPECT_EQ(grow(), std::nullopt);
  EXPECT_THAT(drafter_->exhausted().value_or(""), HasSubstr("token 13 is outside"));
}

TEST_F(DraftingTest, WithNothingWantedTheTreeIsKeptAndNothingGrows) {
  Drafter drafter({.vocab_size = 13});
  drafter.restart(Ids{1, 2});
  EXPECT_EQ(drafter.grow(RoundPolicy({.length = 0}), 10), std::nullopt);
  drafter.commit(Ids{3});
  EXPECT_THAT(drafter.tree().text(), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace outrider
