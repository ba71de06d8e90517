// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/lookup/lookup_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "common/decoding/drafting/draft_engine.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using testing::IsEmpty;

constexpr std::int32_t kVocab = 50;

DraftStep reading(std::vector<TokenId> text) {
  DraftStep step;
  step.catch_up = std::move(text);
  step.guess_after_catch_up = true;
  return step;
}

// A chain under the end of the text.
DraftStep growing(const std::vector<TokenId>& chain) {
  DraftStep step;
  for (const TokenId token : chain) {
    step.grow.push_back({kRootSlot, static_cast<int>(step.grow.size()) - 1, token});
  }
  return step;
}

class LookupModelTest : public testing::Test {
 protected:
  LookupModelTest() : engine_(*DraftEngine::create(model_, clock_, 300)) {}

  static std::vector<TokenId> tokens_of(const std::vector<Guess>& guesses) {
    std::vector<TokenId> tokens;
    for (const Guess& guess : guesses) tokens.push_back(guess.token);
    return tokens;
  }
  // The engine's guesses after it has read this.
  std::vector<Guess> read(std::vector<TokenId> text) {
    const auto done = engine_->run(reading(std::move(text)));
    EXPECT_TRUE(done.ok()) << done.status().message();
    return done->guesses.at(0);
  }

  ManualClock clock_;
  LookupModel model_{{.vocab_size = kVocab}};
  std::unique_ptr<DraftEngine> engine_;
};

TEST_F(LookupModelTest, GuessesWhatFollowedBefore) {
  EXPECT_EQ(tokens_of(read({1, 2, 3, 4, 9, 1, 2, 3})), std::vector<TokenId>{4});
}

TEST_F(LookupModelTest, WhereNothingMatchesItGuessesNothing) {
  EXPECT_THAT(read({1, 2, 3, 4}), IsEmpty());
}

TEST_F(LookupModelTest, AChainGoesOnAlongTheEarlierPlace) {
  read({1, 2, 3, 4, 5, 6, 9, 1, 2});
  const auto done = *engine_->run(growing({3, 4, 8}));
  EXPECT_EQ(tokens_of(done.guesses.at(0)), std::vector<TokenId>{4});
  EXPECT_EQ(tokens_of(done.guesses.at(1)), std::vector<TokenId>{5});
  EXPECT_THAT(done.guesses.at(2), IsEmpty()) << "8 never came";
}

TEST_F(LookupModelTest, ATextThatIsCutStaysAsAnEarlierOne) {
  read({1, 2, 3, 4, 5, 6, 7});
  DraftStep step = reading({9, 4, 5});
  step.keep = 2;
  const auto done = *engine_->run(step);
  EXPECT_EQ(tokens_of(done.guesses.at(0)), std::vector<TokenId>{6});
}

TEST_F(LookupModelTest, RemembersTextsThatItWasGiven) {
  LookupModel model({.vocab_size = kVocab});
  model.remember(std::vector<TokenId>{30, 31, 32, 33});
  auto engine = *DraftEngine::create(model, clock_, 100);
  const auto done = *engine->run(reading({1, 30, 31}));
  EXPECT_EQ(tokens_of(done.guesses.at(0)), std::vector<TokenId>{32});
}

// The same pair of tokens is followed by the same one nine times out of ten, or half of the time.
TEST_F(LookupModelTest, LearnsFromTheTextHowOftenMatchesAreRight) {
  std::vector<TokenId> sure, unsure;
  for (int i = 0; i < 60; ++i) {
    const TokenId noise = 10 + i % 7;
    sure.insert(sure.end(), {noise, 1, 2, 3});
    unsure.insert(unsure.end(), {noise, 1, 2, static_cast<TokenId>(20 + (i * 13) % 11)});
  }
  sure.insert(sure.end(), {40, 1, 2});
  unsure.insert(unsure.end(), {40, 1, 2});
  const float confident = read(sure).at(0).confidence;
  LookupModel other({.vocab_size = kVocab});
  engine_ = *DraftEngine::create(other, clock_, 300);
  const float doubtful = read(unsure).at(0).confidence;
  EXPECT_GT(confident, 0.5f);
  EXPECT_LT(doubtful, 0.25f);
}

TEST_F(LookupModelTest, ATokenBeyondTheVocabularyIsNoGuess) {
  LookupModel model({.vocab_size = kVocab});
  model.remember(std::vector<TokenId>{1, 2, kVocab + 5});
  auto engine = *DraftEngine::create(model, clock_, 100);
  const auto done = *engine->run(reading({1, 2}));
  EXPECT_THAT(done.guesses.at(0), IsEmpty());
}

// --- beside a model -----------------------------------------------------------------------------

TEST_F(LookupModelTest, BesideAModelBothGuessesAreThere) {
  ToyModel toy(kVocab);
  auto alone = *DraftEngine::create(toy, clock_, 300);
  auto both = *DraftEngine::create(toy, clock_, 300);
  LookupModel lookup({.vocab_size = kVocab});
  ASSERT_TRUE(both->guess_beside(lookup).ok());
  const DraftStep step = reading({1, 2, 3, 4, 9, 1, 2, 3});
  const TokenId models = alone->run(step)->guesses.at(0).at(0).token;
  ASSERT_NE(models, 4) << "choose other tokens for this test";
  const auto done = both->run(step);
  ASSERT_TRUE(done.ok());
  EXPECT_THAT(tokens_of(done->guesses.at(0)), testing::UnorderedElementsAre(models, 4));
  const auto grown = both->run(growing({4}));
  ASSERT_TRUE(grown.ok());
  EXPECT_THAT(tokens_of(grown->guesses.at(0)), testing::Contains(9));
}

}  // namespace
}  // namespace outrider
