// Replays with toy models, whose every choice a test can compute.
// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/replay.h"

#include <gtest/gtest.h>

#include "adapters/exits/hidden_states.h"
#include "tests/sim/toy_exits.h"

namespace outrider {
namespace {

class ReplayTest : public testing::Test {
 protected:
  Result<std::vector<PassSample>> replay(const ReplayOptions& options) {
    std::vector<PassSample> passes;
    PassReplay replay(model_, draft_, exits_, clock_);
    OUTRIDER_RETURN_IF_ERROR(
        replay.run(prompt_, options, [&](PassSample pass) { passes.push_back(std::move(pass)); }));
    return passes;
  }

  SystemClock clock_;
  ToyModel model_{6}, draft_{6};
  ToyExits exits_{model_};
  std::vector<TokenId> prompt_ = std::vector<TokenId>(150, 3);
};

TEST_F(ReplayTest, ADraftLikeTheTargetIsAlwaysTaken) {
  for (const float temperature : {0.0f, 1.0f}) {
    const auto passes =
        replay({.gamma = 4, .sampling = {.temperature = temperature}, .max_tokens = 50});
    ASSERT_TRUE(passes.ok()) << passes.status().to_string();
    ASSERT_EQ(passes->size(), 10u);
    for (const PassSample& pass : *passes) EXPECT_EQ(pass.accepted, 4);
  }
}

// A sample is right exactly if the target chooses it.
TEST_F(ReplayTest, SamplesSayWhatTheExitsSaid) {
  const SamplingParams sampling{.temperature = 1};
  const auto passes = replay({.gamma = 3, .sampling = sampling, .seed = 9, .max_tokens = 60});
  ASSERT_TRUE(passes.ok()) << passes.status().to_string();
  const std::vector<TokenId> text =
      model_.decode(prompt_, static_cast<Position>(prompt_.size()) + 60, sampling, 9);
  std::size_t end = prompt_.size(), wrong = 0;
  for (const PassSample& pass : *passes) {
    for (std::size_t exit = 0; exit < pass.exits.size(); ++exit) {
      bool all_right = true;
      for (int row = 0; row <= pass.accepted; ++row) {
        const auto length = end + static_cast<std::size_t>(row);
        const auto seen = std::span(text).first(length);
        all_right = all_right && choose(exits_.logits_after(exit, seen), sampling, 9,
                                        static_cast<Position>(length)) == text[length];
      }
      const ExitSample& sample = pass.exits[exit];
      EXPECT_EQ(sample.right, all_right);
      ASSERT_EQ(sample.rows.size(), sample.row_right.size());
      if (sample.right) {
        EXPECT_EQ(sample.rows.size(), static_cast<std::size_t>(pass.accepted) + 1);
        for (const bool right : sample.row_right) EXPECT_TRUE(right);
      }
      wrong += all_right ? 0 : 1;
      EXPECT_GT(sample.max_softmax, 0);
    }
    end += static_cast<std::size_t>(pass.accepted) + 1;
  }
  EXPECT_EQ(end, text.size());
  EXPECT_GT(wrong, 0u);
}

TEST_F(ReplayTest, APromptThatDoesNotFitIsRefused) {
  EXPECT_EQ(replay({.max_tokens = 500}).status().code(), StatusCode::kInvalidArgument);
}

TEST(HiddenReaderTest, CollectsTheRowsThatPredictLearntTokens) {
  ToyModel model(10);
  auto reader = *HiddenReader::make(model, {1, 3});
  HiddenBatch batch = reader.empty_batch();
  const Document document{{4, 5, 6, 7}, {1, 0, 1, 1}};
  ASSERT_TRUE(reader.read(document, batch).ok());
  ASSERT_TRUE(reader.read(document, batch).ok());
  EXPECT_EQ(batch.next, (std::vector<TokenId>{6, 7, 6, 7}));
  ASSERT_EQ(batch.hidden.size(), 2u);
  const auto width = static_cast<std::size_t>(model.info().hidden_size);
  ASSERT_EQ(batch.hidden[1].size(), 4 * width);
  EXPECT_EQ(ToyModel::text_of_hidden(std::span(batch.hidden[1]).subspan(width, width)),
            (std::vector<TokenId>{4, 5, 6}));
  const std::vector<float> logits = model.logits_after(std::vector<TokenId>{4, 5});
  EXPECT_TRUE(std::equal(logits.begin(), logits.end(), batch.logits.begin()));
  EXPECT_EQ(batch.logits.size(), 40u);
  EXPECT_EQ(learnt_rows(document), 2u);
}

TEST(DocumentOrderTest, SharesCountRowsAndTheOrderIsReproducible) {
  std::vector<Source> sources(2);
  sources[0].share = 3;
  sources[0].documents.assign(10, {{1, 1, 1}, {0, 1, 1}});
  sources[1].documents.assign(10, {{2, 2, 2, 2, 2}, {0, 1, 1, 1, 1}});
  DocumentOrder order(sources, 1), again(sources, 1);
  double rows[2] = {0, 0};
  for (int i = 0; i < 400; ++i) {
    const Document& document = order.next();
    EXPECT_EQ(document.tokens, again.next().tokens);
    rows[document.tokens[0] - 1] += static_cast<double>(learnt_rows(document) + 1);
  }
  EXPECT_NEAR(rows[0] / rows[1], 3, 0.1);
}

}  // namespace
}  // namespace outrider
