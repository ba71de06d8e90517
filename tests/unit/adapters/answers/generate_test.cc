// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "adapters/answers/acceptance.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using Answers = std::vector<std::vector<TokenId>>;
using ::testing::IsEmpty;

class GenerateTest : public testing::Test {
 protected:
  GenerateTest() {
    for (int i = 0; i < 5; ++i) prompts_.push_back(some_tokens(3 + 4 * i));
    options_ = {.max_tokens = 24, .temperature = 1.0f, .seed = 7, .stop = -1, .batch = 3};
  }

  Answers answers() {
    const Result<Answers> answers =
        generate(*model_, prompts_, options_, [this](std::int64_t done) { seen_.push_back(done); });
    EXPECT_TRUE(answers.ok()) << answers.status().to_string();
    return answers.ok() ? *answers : Answers(prompts_.size());
  }

  TestDirectory directory_;
  std::shared_ptr<const ModelFiles> files_ = small_model(directory_.path(), "llama", DType::kF32);
  std::unique_ptr<Model> model_ =
      *make_cpu_model(files_, {.dtype = "f32", .threads = 1, .progress = {}});
  Answers prompts_;
  GenerateOptions options_;
  std::vector<std::int64_t> seen_;
};

TEST_F(GenerateTest, AnswersAreThoseOfEachPromptAlone) {
  const Answers together = answers();
  options_.batch = 1;
  EXPECT_EQ(together, answers());
  for (const std::vector<TokenId>& answer : together) EXPECT_FALSE(answer.empty());
  EXPECT_NE(together[0], together[1]);
}

TEST_F(GenerateTest, AnAnswerEndsBeforeTheStopToken) {
  const Answers whole = answers();
  options_.stop = whole[0].back();
  const Answers cut = answers();
  const auto end = std::find(whole[0].begin(), whole[0].end(), options_.stop);
  EXPECT_EQ(cut[0], std::vector<TokenId>(whole[0].begin(), end));
  for (const std::vector<TokenId>& answer : cut) {
    EXPECT_EQ(std::count(answer.begin(), answer.end(), options_.stop), 0);
  }
}

TEST_F(GenerateTest, PromptsThatFillTheContextHaveNoAnswer) {
  prompts_[1].clear();
  prompts_[2].assign(static_cast<std::size_t>(model_->info().max_positions), 1);
  const Answers got = answers();
  EXPECT_THAT(got[1], IsEmpty());
  EXPECT_THAT(got[2], IsEmpty());
  EXPECT_FALSE(got[4].empty());
  EXPECT_EQ(seen_.back(), 5);
  EXPECT_TRUE(std::is_sorted(seen_.begin(), seen_.end()));
}

TEST_F(GenerateTest, AModelGuessesItsOwnGreedyAnswers) {
  options_.temperature = 0;
  options_.max_tokens = 6;
  const Answers got = answers();
  std::vector<Document> documents;
  for (std::size_t i = 0; i < got.size(); ++i) {
    Document document{prompts_[i], std::vector<std::uint8_t>(prompts_[i].size(), 0)};
    document.tokens.insert(document.tokens.end(), got[i].begin(), got[i].end());
    document.learnt.resize(document.tokens.size(), 1);
    documents.push_back(std::move(document));
  }
  const Result<std::vector<std::vector<bool>>> hits = greedy_hits(*model_, documents);
  ASSERT_TRUE(hits.ok()) << hits.status().to_string();
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ((*hits)[i], std::vector<bool>(got[i].size(), true)) << i;
  }
  documents[0].tokens.back() ^= 1;
  EXPECT_FALSE((*greedy_hits(*model_, documents))[0].back());
}

TEST(TokensPerPass, CountsDraftedAndOwnTokens) {
  // One text; a pass takes the hits up to the first miss, at most gamma, and one token more.
  EXPECT_DOUBLE_EQ(tokens_per_pass({{true, true, true, true, true}}, 4), 5.0);
  EXPECT_DOUBLE_EQ(tokens_per_pass({{false, false, false}}, 4), 1.0);
  EXPECT_DOUBLE_EQ(tokens_per_pass({{true, false, true, false}}, 4), 2.0);
  EXPECT_DOUBLE_EQ(tokens_per_pass({{true, true, true}}, 1), 1.5);
  EXPECT_DOUBLE_EQ(tokens_per_pass({}, 4), 0.0);
}

}  // namespace
}  // namespace outrider
