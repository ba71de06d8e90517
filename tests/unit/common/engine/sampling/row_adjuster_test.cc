// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/row_adjuster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "common/engine/sampling/sampling.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Ids = std::vector<TokenId>;
constexpr float kNever = -std::numeric_limits<float>::infinity();

// Behind a prompt of two tokens.
RowAdjuster adjuster_of(const ChoiceSettings& settings, const Ids& text, const Ids& stops = {}) {
  RowAdjuster adjuster(settings, 2, stops);
  adjuster.append(text);
  return adjuster;
}

std::vector<float> adjusted(const RowAdjuster& adjuster, const std::vector<float>& row,
                            const Ids& path = {}) {
  std::vector<float> out;
  const std::span<const float> view = adjuster.adjust(row, path, out);
  return {view.begin(), view.end()};
}

TEST(RowAdjuster, WithoutSettingsARowIsGivenBackItself) {
  const RowAdjuster adjuster = adjuster_of({}, {0, 1, 2});
  const std::vector<float> row{1, 2, 3};
  std::vector<float> out;
  EXPECT_FALSE(adjuster.adjusts());
  EXPECT_EQ(adjuster.adjust(row, Ids{1}, out).data(), row.data());
  EXPECT_TRUE(out.empty());
}

TEST(RowAdjuster, PresenceAndFrequencyCountTheAnswerAlone) {
  const ChoiceSettings settings{.presence_penalty = 1, .frequency_penalty = 0.25f};
  const RowAdjuster adjuster = adjuster_of(settings, {0, 1, 1, 2, 2});
  EXPECT_THAT(adjusted(adjuster, {4, 4, 4, 4}), ElementsAre(4, 2.75f, 2.5f, 4));
}

TEST(RowAdjuster, RepetitionCountsThePromptTooAndMovesBothSignsDown) {
  const RowAdjuster adjuster = adjuster_of({.repetition_penalty = 2}, {0, 1, 2});
  EXPECT_THAT(adjusted(adjuster, {4, -4, 3, 5}), ElementsAre(2, -8, 1.5f, 5));
}

TEST(RowAdjuster, EachNodeCountsItsOwnPathAndLeavesNoTrace) {
  const ChoiceSettings settings{.frequency_penalty = 0.5f};
  const RowAdjuster adjuster = adjuster_of(settings, {0, 1, 2});
  EXPECT_THAT(adjusted(adjuster, {1, 1, 1, 1}, {2, 3, 3}), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(adjusted(adjuster, {1, 1, 1, 1}, {0}), ElementsAre(0.5f, 1, 0.5f, 1));
  EXPECT_THAT(adjusted(adjuster, {1, 1, 1, 1}), ElementsAre(1, 1, 0.5f, 1));
}

TEST(RowAdjuster, APathGivesWhatTheSameTextGives) {
  const ChoiceSettings settings{.presence_penalty = 0.3f,
                                .frequency_penalty = -0.7f,
                                .repetition_penalty = 1.3f,
                                .logit_bias = {{1, 0.1f}},
                                .min_tokens = 5,
                                .bad_words = {{3, 1, 2}}};
  const std::vector<float> row{0.1f, -0.2f, 0.3f, 7, 5};
  const Ids text{4, 2, 3, 1, 3, 1};
  const std::vector<float> whole = adjusted(adjuster_of(settings, text, {4}), row);
  for (std::size_t length = 2; length <= text.size(); ++length) {
    const Ids committed(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
    const Ids path(text.begin() + static_cast<std::ptrdiff_t>(length), text.end());
    EXPECT_EQ(adjusted(adjuster_of(settings, committed, {4}), row, path), whole) << length;
  }
}

TEST(RowAdjuster, BiasComesAfterPenalties) {
  const ChoiceSettings settings{.repetition_penalty = 2, .logit_bias = {{0, 10}, {9, 5}}};
  EXPECT_THAT(adjusted(adjuster_of(settings, {0, 1}), {4, 4}), ElementsAre(12, 2))
      << "and a token beyond the row does not matter";
}

TEST(RowAdjuster, StopTokensDoNotComeBeforeMinTokens) {
  const RowAdjuster adjuster = adjuster_of({.min_tokens = 2}, {0, 1, 1}, {2});
  EXPECT_THAT(adjusted(adjuster, {1, 2, 9}), ElementsAre(1, 2, kNever));
  EXPECT_THAT(adjusted(adjuster, {1, 2, 9}, {0}), ElementsAre(1, 2, 9));
}

TEST(RowAdjuster, ABadWordIsNotCompletedWithinTheAnswer) {
  const ChoiceSettings settings{.bad_words = {{0}, {1, 2}}};
  EXPECT_THAT(adjusted(adjuster_of(settings, {0, 1}), {5, 6, 7}), ElementsAre(kNever, 6, 7))
      << "the prompt's 1 does not begin the word";
  EXPECT_THAT(adjusted(adjuster_of(settings, {0, 1}), {5, 6, 7}, {1}),
              ElementsAre(kNever, 6, kNever));
}

TEST(RowAdjuster, NothingMakesAChoiceOfNothing) {
  const RowAdjuster adjuster = adjuster_of({.logit_bias = {{1, 100}}}, {0, 1});
  const std::vector<float> row = adjusted(adjuster, {0, kNever, -1});
  EXPECT_EQ(choose(row, {}, 0, 2), 0) << "a bias lifts no token that the model rules out";
}

// Allows tokens 1 and 2 in turn, and an end behind 2.
class InTurn final : public Constraint {
 public:
  std::unique_ptr<ConstraintState> begin() const override { return std::make_unique<State>(); }
  std::size_t size_in_bytes() const override { return 0; }

 private:
  class State final : public ConstraintState {
   public:
    void append(std::span<const TokenId> tokens) override { length_ += tokens.size(); }
    std::vector<TokenId> forced(std::span<const TokenId> /*path*/) override { return {}; }
    std::shared_ptr<const AllowedTokens> allowed(std::span<const TokenId> path) override {
      const bool second = (length_ + path.size()) % 2 == 1;
      return std::make_shared<const AllowedTokens>(
          AllowedTokens{.words = {second ? 4u : 2u}, .may_end = length_ > 0 && !second});
    }

   private:
    std::size_t length_ = 0;  // of the answer
  };
};

TEST(RowAdjuster, AFormCountsTheAnswerAndItsPathAndEndsAtAStopOnly) {
  const AnswerConstraint form{{ConstraintKind::kGrammar, "in turn"}, std::make_shared<InTurn>()};
  const ChoiceSettings settings{.logit_bias = {{0, 10}}, .constraint = form};
  const std::vector<float> row(40, 5);
  const auto kept = [&](const RowAdjuster& adjuster, const Ids& path) {
    Ids ids;
    const std::vector<float> given = adjusted(adjuster, row, path);
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i] != kNever) ids.push_back(static_cast<TokenId>(i));
    }
    return ids;
  };
  // Token 2 is text and a stop, token 35 lies beyond what the form knows.
  const Ids stops = {35, 2};
  EXPECT_THAT(kept(adjuster_of(settings, {7, 7}, {35}), {}), ElementsAre(1))
      << "the prompt is free";
  EXPECT_THAT(kept(adjuster_of(settings, {7, 7, 1}, {35}), {}), ElementsAre(2));
  EXPECT_THAT(kept(adjuster_of(settings, {7, 7, 1}, {35}), {2}), ElementsAre(1, 35));
  EXPECT_THAT(kept(adjuster_of(settings, {7, 7, 1, 2}, {35}), {}), ElementsAre(1, 35));
  EXPECT_THAT(kept(adjuster_of(settings, {7, 7, 1}, stops), {}), ElementsAre())
      << "a stop that is text cuts no form";
  EXPECT_THAT(kept(adjuster_of(settings, {7, 7, 1, 2}, stops), {}), ElementsAre(1, 2, 35));
}

struct BadSettings {
  const char* field;
  ChoiceSettings settings;
};

TEST(ChoiceSettings, WrongValuesAreRefusedByName) {
  const std::vector<BadSettings> wrong = {
      {"presence_penalty = 2.1", {.presence_penalty = 2.1f}},
      {"frequency_penalty = -3", {.frequency_penalty = -3}},
      {"frequency_penalty = nan", {.frequency_penalty = std::numeric_limits<float>::quiet_NaN()}},
      {"repetition_penalty = 0", {.repetition_penalty = 0}},
      {"logit_bias of token 1 = 101", {.logit_bias = {{1, 101}}}},
      {"logit_bias: token 5", {.logit_bias = {{5, 1}}}},
      {"logit_bias: token -1", {.logit_bias = {{-1, 1}}}},
      {"logit_bias has token 3 twice", {.logit_bias = {{3, 1}, {3, 2}}}},
      {"logit_bias has 1025 entries", {.logit_bias = std::vector<LogitBias>(1025)}},
      {"min_tokens = -1", {.min_tokens = -1}},
      {"bad_words[1] has no token", {.bad_words = {{1}, {}}}},
      {"bad_words[0]: token 5", {.bad_words = {{1, 5}}}},
      {"bad_words[0] has 33 entries", {.bad_words = {Ids(33, 1)}}},
      {"bad_words has 257 entries", {.bad_words = std::vector<Ids>(257, Ids{1})}}};
  for (const BadSettings& one : wrong) {
    const Status status = validate(one.settings, 5);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << one.field;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(one.field), HasSubstr("Remedy")));
  }
  EXPECT_TRUE(validate(ChoiceSettings(), 5).ok());
  EXPECT_TRUE(validate({.logit_bias = {{5, -100}}}, 0).ok()) << "the vocabulary is not known yet";
}

}  // namespace
}  // namespace outrider
