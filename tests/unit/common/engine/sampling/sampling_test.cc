// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "common/engine/sampling/philox.h"
#include "tests/unit/common/engine/sampling/float_values.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Logits in steps of 1/8, so that ties occur.
std::vector<float> random_logits(std::size_t vocab, std::uint32_t seed) {
  std::vector<float> logits(vocab);
  for (std::uint32_t i = 0; i < vocab; ++i) {
    logits[i] = static_cast<float>(philox({i, seed, 0, 0}, {5, 5})[0] % 128) / 8.0f;
  }
  return logits;
}

// The kept tokens by the definition in sampling.h, in plain f64.
std::vector<TokenId> kept_by_definition(const std::vector<float>& logits,
                                        const SamplingParams& params) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](TokenId token) { return logits[static_cast<std::size_t>(token)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
  if (params.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<std::size_t>(params.top_k)));
  }
  const auto weight = [&](TokenId token) {
    return std::exp((double{logit(token)} - double{logit(order[0])}) / double{params.temperature});
  };
  double total = 0;
  for (const TokenId token : order) total += weight(token);
  std::vector<TokenId> kept;
  double before = 0;
  for (const TokenId token : order) {
    const bool in_nucleus = params.top_p >= 1 || before < double{params.top_p} * total;
    before += weight(token);
    if (in_nucleus && weight(token) >= double{params.min_p}) kept.push_back(token);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::vector<TokenId> kept_by_rank(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<TokenId> kept;
  for (const Candidate& candidate :
       rank(logits, params, 1, 2, static_cast<int>(logits.size()) + 5)) {
    kept.push_back(candidate.token);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

const std::vector<SamplingParams> kSettings = {
    {.temperature = 0.0f},
    {.temperature = 1.0f},
    {.temperature = 0.7f, .top_k = 40},
    {.temperature = 1.0f, .top_p = 0.9f},
    {.temperature = 2.0f, .top_p = 0.999f},
    {.temperature = 1.3f, .min_p = 0.02f},
    {.temperature = 0.9f, .top_k = 100, .top_p = 0.8f, .min_p = 0.01f},
};

TEST(Choose, KeepsTheTokensThatTheDefinitionKeeps) {
  for (const std::size_t vocab : {1u, 2u, 63u, 64u, 65u, 500u, 5000u}) {
    const std::vector<float> logits = random_logits(vocab, static_cast<std::uint32_t>(vocab));
    for (const SamplingParams& params : kSettings) {
      if (params.temperature == 0) continue;
      EXPECT_EQ(kept_by_rank(logits, params), kept_by_definition(logits, params))
          << vocab << " tokens, T " << params.temperature << " k " << params.top_k << " p "
          << params.top_p << " m " << params.min_p;
    }
  }
}

TEST(Choose, IsTheFirstOfRank) {
  const std::vector<float> logits = random_logits(700, 3);
  for (const SamplingParams& params : kSettings) {
    for (Position t = 0; t < 300; ++t) {
      const std::vector<Candidate> ranked = rank(logits, params, 11, t, 4);
      ASSERT_FALSE(ranked.empty());
      EXPECT_EQ(choose(logits, params, 11, t), ranked[0].token);
      EXPECT_TRUE(std::is_sorted(ranked.begin(), ranked.end(), [](auto& a, auto& b) {
        return a.score != b.score ? a.score > b.score : a.token < b.token;
      }));
    }
  }
}

// Why verification can be equality: with equal logits the draft's guess is the target's choice,
// and the choice at a position depends on nothing but its arguments.
TEST(Choose, DraftAndTargetWithEqualLogitsChooseAlike) {
  for (const SamplingParams& params : kSettings) {
    std::vector<TokenId> by_target;
    for (Position t = 0; t < 200; ++t) {
      by_target.push_back(choose(random_logits(300, static_cast<std::uint32_t>(t)), params, 5, t));
    }
    std::vector<TokenId> by_draft(by_target.size());
    std::thread draft([&] {
      for (Position t = 199; t >= 0; --t) {
        const std::vector<float> logits = random_logits(300, static_cast<std::uint32_t>(t));
        by_draft[static_cast<std::size_t>(t)] = rank(logits, params, 5, t, 3)[0].token;
      }
    });
    draft.join();
    EXPECT_EQ(by_draft, by_target);
  }
}

// Shared noise couples the guesses of a draft that is only near.
TEST(Choose, ANearDraftMostlyGuessesRightAndAForeignSeedDoesNot) {
  const SamplingParams params{.temperature = 1.0f};
  int same_noise = 0;
  int other_noise = 0;
  for (Position t = 0; t < 2000; ++t) {
    std::vector<float> target = random_logits(50, static_cast<std::uint32_t>(t));
    for (float& logit : target) logit *= 0.25f;
    std::vector<float> draft = target;
    for (std::size_t i = 0; i < draft.size(); i += 2) draft[i] += 0.2f;
    const TokenId chosen = choose(target, params, 1, t);
    same_noise += choose(draft, params, 1, t) == chosen ? 1 : 0;
    other_noise += choose(draft, params, 2, t) == chosen ? 1 : 0;
  }
  EXPECT_GT(same_noise, 1750);
  EXPECT_LT(other_noise, 400);
}

TEST(Choose, AtTemperatureZeroIsArgmaxWithTiesToTheLowerId) {
  const SamplingParams greedy{.temperature = 0.0f, .top_k = 1, .top_p = 0.1f};
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(choose(std::vector<float>{1, 7, 3, 7}, greedy, 1, 1), 1);
  EXPECT_EQ(choose(std::vector<float>{-0.0f, 0.0f}, greedy, 1, 1), 0);
  EXPECT_EQ(choose(std::vector<float>{kNaN, -2, -1}, greedy, 1, 1), 2);
  EXPECT_EQ(choose(std::vector<float>{1, largest, kInfinity}, greedy, 1, 1), 1);
  const std::vector<Candidate> ranked = rank(std::vector<float>{1, 7, kNaN, 7}, greedy, 1, 1, 9);
  ASSERT_EQ(ranked.size(), 3u);
  EXPECT_EQ(ranked[1].token, 3);
  EXPECT_EQ(ranked[1].score, 7.0f);
}

TEST(Choose, ARowWithNothingToChooseGivesTokenZero) {
  for (const SamplingParams& params : kSettings) {
    for (const float nothing : {-kInfinity, kNaN}) {
      const std::vector<float> row(100, nothing);
      EXPECT_EQ(choose(row, params, 1, 1), 0);
      ASSERT_EQ(rank(row, params, 1, 1, 3).size(), 1u);
      EXPECT_EQ(rank(row, params, 1, 1, 3)[0].token, 0);
      EXPECT_TRUE(rank(row, params, 1, 1, 0).empty());
    }
  }
}

TEST(Choose, NeverTakesATokenOfProbabilityZero) {
  std::vector<float> row(1000, -kInfinity);
  row[3] = -90.0f;
  row[500] = kNaN;
  row[999] = -91.0f;
  for (const SamplingParams& params : kSettings) {
    for (Position t = 0; t < 50; ++t) {
      const TokenId token = choose(row, params, 1, t);
      EXPECT_TRUE(token == 3 || token == 999) << token;
      EXPECT_LE(rank(row, params, 1, t, 10).size(), 2u);
    }
  }
}

TEST(Choose, StandsExtremeSettings) {
  const std::vector<float> logits = random_logits(400, 1);
  const auto logit_of = [&](const SamplingParams& params, Position t) {
    return logits[static_cast<std::size_t>(choose(logits, params, 1, t))];
  };
  const TokenId likeliest = choose(logits, {.temperature = 0.0f}, 1, 1);
  const float largest = logits[static_cast<std::size_t>(likeliest)];
  for (Position t = 0; t < 50; ++t) {
    EXPECT_EQ(choose(logits, {.temperature = 1.0f, .top_p = 0.0f}, 1, t), likeliest);
    EXPECT_EQ(choose(logits, {.temperature = 1.0f, .top_k = 1}, 1, t), likeliest);
    EXPECT_EQ(logit_of({.temperature = 1e-6f}, t), largest);
    EXPECT_EQ(logit_of({.temperature = 1.0f, .min_p = 1.0f}, t), largest);
    EXPECT_EQ(choose(logits, {.temperature = 100.0f, .top_k = 2'000'000'000}, 1, t),
              choose(logits, {.temperature = 100.0f}, 1, t));
  }
  const std::vector<float> huge = {3e38f, -3e38f, 2e38f};
  EXPECT_EQ(choose(huge, {.temperature = 1e-6f}, 1, 1), 0);
}

// A sum of 300,000 such weights in f64 would be above 1, and top_p times it too.
TEST(Choose, WeightsBelowHalfAUnitCountAsNothing) {
  std::vector<float> row(300'000, -28.5f);
  row[7] = 0.0f;
  const std::vector<Candidate> kept =
      rank(row, {.temperature = 1.0f, .top_p = 0.99999994f}, 1, 1, 2);
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].token, 7);
}

// A filter that keeps everything must change nothing: it takes another way through the code.
TEST(Choose, AFilterWithoutEffectChangesNothing) {
  for (const std::size_t vocab : {5u, 64u, 4095u, 4097u, 20'000u}) {
    const std::vector<float> logits = random_logits(vocab, 9);
    for (Position t = 0; t < 20; ++t) {
      const TokenId unfiltered = choose(logits, {.temperature = 1.0f}, 3, t);
      EXPECT_EQ(choose(logits, {.temperature = 1.0f, .min_p = 1e-30f}, 3, t), unfiltered);
      EXPECT_EQ(choose(logits, {.temperature = 1.0f, .top_p = 0.99999994f}, 3, t), unfiltered);
      EXPECT_EQ(rank(logits, {.temperature = 1.0f}, 3, t, 1)[0].token, unfiltered);
    }
  }
}

// Any CPU must reproduce these.
TEST(Choose, MakesTheSameChoicesOnEveryCpu) {
  std::vector<float> logits = random_logits(32'000, 4);
  for (float& logit : logits) logit *= 0.5f;
  std::vector<TokenId> tokens;
  for (const SamplingParams& params : kSettings) {
    for (Position t = 7; t < 11; ++t) tokens.push_back(choose(logits, params, 0xC0FFEE, t));
  }
  EXPECT_THAT(tokens, ElementsAre(76, 76, 76, 76, 14782, 7635, 16213, 2467, 3186, 3186, 992, 638,
                                  14782, 7635, 16213, 2467, 14782, 7635, 11508, 2467, 14782, 7635,
                                  11508, 2467, 6873, 5246, 7162, 638));
}

TEST(ValidateSampling, NamesTheFieldThatIsOutOfRange) {
  EXPECT_TRUE(validate({}).ok());
  EXPECT_TRUE(validate({.temperature = 100, .top_k = 1 << 30, .top_p = 0, .min_p = 1}).ok());
  EXPECT_THAT(validate({.temperature = kNaN}).message(), HasSubstr("temperature"));
  EXPECT_THAT(validate({.temperature = -0.1f}).message(), HasSubstr("temperature = -0.1"));
  EXPECT_THAT(validate({.temperature = 101}).message(), HasSubstr("temperature"));
  EXPECT_THAT(validate({.top_k = -1}).message(), HasSubstr("top_k = -1"));
  EXPECT_THAT(validate({.top_p = kInfinity}).message(), HasSubstr("top_p"));
  EXPECT_THAT(validate({.min_p = 1.5f}).message(), HasSubstr("min_p"));
}

TEST(Perturb, GivesTheScoresByWhichTokensAreRanked) {
  std::vector<float> logits(200);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 37 % 101) / 9;
  for (const float temperature : {0.0f, 0.7f}) {
    const SamplingParams params{.temperature = temperature};
    const std::vector<Candidate> ranked = rank(logits, params, 11, 5, 90);
    std::vector<Candidate> perturbed;
    for (const Candidate& one : ranked) {
      perturbed.push_back({one.token, logits[static_cast<std::size_t>(one.token)]});
    }
    perturb(perturbed, params, 11, 5);
    const float apart = perturbed[0].score - ranked[0].score;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      EXPECT_EQ(perturbed[i].token, ranked[i].token);
      EXPECT_NEAR(perturbed[i].score, ranked[i].score + apart, 1e-4) << "T " << temperature;
    }
  }
  perturb({}, {}, 1, 1);
}

TEST(Perturb, LeavesTokensThatNobodyConsidersOut) {
  std::vector<Candidate> some = {{4, -kInfinity}, {7, 1.5f}};
  perturb(some, {.temperature = 0.7f}, 11, 5);
  EXPECT_EQ(some[0].score, -kInfinity);
  std::vector<Candidate> none = {{4, -kInfinity}, {7, -kInfinity}};
  perturb(none, {.temperature = 0.7f}, 11, 5);
  EXPECT_EQ(none[1].score, -kInfinity);
}

}  // namespace
}  // namespace outrider
