// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/logprobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace outrider {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

double plain_logprob(const std::vector<float>& row, std::size_t token) {
  long double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<long double>(logit) - row[token]);
  return static_cast<double>(-std::log(sum));
}

TEST(Logprobs, AreThoseOfTheSoftmax) {
  std::vector<float> row;
  for (int i = 0; i < 1000; ++i) row.push_back(12 * std::sin(static_cast<float>(i * i)));
  for (const TokenId token : {0, 17, 999}) {
    const TokenLogprobs found = logprobs_of(row, token, 5);
    EXPECT_NEAR(found.chosen, plain_logprob(row, static_cast<std::size_t>(token)), 2e-6);
    ASSERT_THAT(found.top, SizeIs(5));
    for (const Candidate& one : found.top) {
      EXPECT_NEAR(one.score, plain_logprob(row, static_cast<std::size_t>(one.token)), 2e-6);
      EXPECT_GE(found.top.front().score, one.score);
    }
  }
}

TEST(Logprobs, OfLogitsFarFromZeroAreAsExact) {
  const std::vector<float> row{-3000, -3001, -3002};
  EXPECT_NEAR(logprobs_of(row, 1, 0).chosen, -1.407606, 1e-5);
  EXPECT_THAT(logprobs_of(row, 1, 0).top, IsEmpty());
}

TEST(Logprobs, StayFiniteWhereTheRowRulesTokensOut) {
  const std::vector<float> row{kRuledOut, 1, std::nanf("")};
  const TokenLogprobs found = logprobs_of(row, 0, 20);
  EXPECT_EQ(found.chosen, std::numeric_limits<float>::lowest());
  EXPECT_EQ(logprobs_of(row, 2, 0).chosen, std::numeric_limits<float>::lowest());
  ASSERT_THAT(found.top, SizeIs(1)) << "what is ruled out is no alternative";
  EXPECT_EQ(found.top[0], (Candidate{1, 0}));
  const std::vector<float> infinite{1, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(logprobs_of(infinite, 1, 0).chosen, 0);
}

}  // namespace
}  // namespace outrider
