// The losses on labels against sums that are written out. SPDX-License-Identifier: Apache-2.0
#include "adapters/distill/label_targets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace outrider {
namespace {

// Probabilities of scores at a temperature.
std::vector<double> softmax(const std::vector<double>& scores, double temperature) {
  double sum = 0;
  std::vector<double> shares;
  for (const double score : scores) {
    shares.push_back(std::exp(score / temperature));
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

double divergence(const std::vector<double>& from, const std::vector<double>& to) {
  double sum = 0;
  for (std::size_t i = 0; i < from.size(); ++i) sum += from[i] * std::log(from[i] / to[i]);
  return sum;
}

// One row of four tokens; the teacher's labels have all of them or the first three.
class LabelLossTest : public testing::Test {
 protected:
  double total(std::size_t top_k, const LabelLossWeights& weights) const {
    std::vector<std::int64_t> columns;
    std::vector<float> probabilities;
    for (std::size_t i = 0; i < top_k; ++i) {
      columns.push_back(static_cast<std::int64_t>(i));
      probabilities.push_back(static_cast<float>(softmax(teacher_, 1)[i]));
    }
    const at::Tensor logits =
        at::tensor(std::vector<float>(student_.begin(), student_.end())).unsqueeze(0);
    const LabelTargets targets =
        label_targets(columns, probabilities, static_cast<std::int64_t>(top_k));
    return label_loss(logits, targets, weights).total.item<double>();
  }

  const std::vector<double> teacher_ = {2.0, 1.0, 0.5, -1.0};
  const std::vector<double> student_ = {0.5, 1.5, -0.5, 0.25};
};

// LEVER, eq. 9.
TEST_F(LabelLossTest, TheDivergenceIsTakenAtItsTemperatureAndCountsTimesItsSquare) {
  for (const double hot : {1.0, 2.0, 0.5}) {
    EXPECT_NEAR(total(4, {.temperature = hot}),
                hot * hot * divergence(softmax(teacher_, hot), softmax(student_, hot)), 1e-5)
        << "temperature " << hot;
  }
}

// Eq. 8 and 10.
TEST_F(LabelLossTest, TheCandidatesHaveATemperatureOfTheirOwn) {
  const std::vector<double> teacher(teacher_.begin(), teacher_.begin() + 3);
  const std::vector<double> student(student_.begin(), student_.begin() + 3);
  const double without = total(3, {.temperature = 2});
  for (const double hot : {1.0, 3.0}) {
    EXPECT_NEAR(
        total(3, {.candidates = 0.7, .temperature = 2, .candidate_temperature = hot}),
        without + 0.7 * hot * hot * divergence(softmax(teacher, hot), softmax(student, hot)), 1e-5)
        << "temperature " << hot;
  }
}

TEST_F(LabelLossTest, WhatIsReportedStaysAtOne) {
  const at::Tensor logits = at::tensor(std::vector<float>{0.5f, 1.5f}).unsqueeze(0);
  const LabelTargets targets = label_targets({0, 1}, {0.75f, 0.25f}, 2);
  const LabelLoss one = label_loss(logits, targets, {}),
                  hot = label_loss(logits, targets, {.temperature = 4});
  EXPECT_EQ(one.divergence.item<double>(), hot.divergence.item<double>());
  EXPECT_NE(one.total.item<double>(), hot.total.item<double>());
}

}  // namespace
}  // namespace outrider
