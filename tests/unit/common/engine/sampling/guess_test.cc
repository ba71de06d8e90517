// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/guess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace outrider {
namespace {

using ::testing::SizeIs;

TEST(GuessNext, AtTemperatureZeroConfidenceIsTheSoftmax) {
  const std::vector<float> logits{0.0f, 1.0f, 2.0f};
  const std::vector<Guess> guesses = guess_next(logits, {}, 0, 5, 2);
  ASSERT_THAT(guesses, SizeIs(2));
  EXPECT_EQ(guesses[0].token, 2);
  EXPECT_NEAR(guesses[0].confidence, 0.66524, 1e-4);
  EXPECT_NEAR(guesses[1].confidence, 0.24473, 1e-4);
}

TEST(GuessNext, WithNoiseConfidenceIsTheGapToTheBestOther) {
  const std::vector<float> logits{0.3f, 1.0f, 2.0f, -1.0f};
  const SamplingParams sampling{.temperature = 0.7f};
  const std::vector<Guess> guesses = guess_next(logits, sampling, 3, 5, 3);
  const std::vector<Candidate> best = rank(logits, sampling, 3, 5, 3);
  ASSERT_THAT(guesses, SizeIs(3));
  EXPECT_EQ(guesses[0].token, choose(logits, sampling, 3, 5));
  EXPECT_NEAR(guesses[0].confidence, 1 / (1 + std::exp(best[1].score - best[0].score)), 1e-5);
  EXPECT_GT(guesses[0].confidence, 0.5f);
  EXPECT_LT(guesses[1].confidence, 0.5f);
  EXPECT_GT(guesses[1].confidence, guesses[2].confidence);
}

TEST(GuessNext, ASoleCandidateIsCertain) {
  const std::vector<float> logits{0.3f, 1.0f};
  const auto guesses = guess_next(logits, {.temperature = 1.0f, .top_k = 1}, 3, 5, 2);
  ASSERT_THAT(guesses, SizeIs(1));
  EXPECT_EQ(guesses[0].confidence, 1.0f);
}

}  // namespace
}  // namespace outrider
