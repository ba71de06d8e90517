// Logistic regression that goes on while a text is decoded:
//
//   chance = logistic(weights . evidence)
//
// Every outcome moves the weights by one Newton step towards what makes the outcomes so far
// likeliest, each weighted by its age, times a prior around `Rule::prior`.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "common/decoding/exits/positive_system.h"

namespace outrider {

template <std::size_t N>
class OnlineLogistic final {
 public:
  using Values = std::array<double, N>;
  struct Rule {
    double keep = 1;  // of older outcomes' weight, per outcome, 0 .. 1
    Values prior{};
    // The information that the prior counts for on each weight: at first, and for ever. Their sum
    // is above 0.
    Values first{}, lasting{};
    Values low{}, high{};  // of the weights
  };

  // rule: outlives it. weights: to begin with.
  OnlineLogistic(const Rule& rule, const Values& weights) : rule_(&rule), weights_(weights) {
    for (std::size_t i = 0; i < N; ++i) information_[i][i] = rule.first[i];
  }

  const Values& weights() const { return weights_; }

  double chance(const Values& evidence) const {
    double sum = 0;
    for (std::size_t i = 0; i < N; ++i) sum += weights_[i] * evidence[i];
    return 1 / (1 + std::exp(-sum));
  }

  void learn(const Values& evidence, bool right) {
    const double stated = chance(evidence);
    const double weight = stated * (1 - stated), surprise = (right ? 1 : 0) - stated;
    std::array<Values, N> curvature;
    Values slope;
    for (std::size_t i = 0; i < N; ++i) {
      for (std::size_t k = 0; k < N; ++k) {
        information_[i][k] = rule_->keep * information_[i][k] + weight * evidence[i] * evidence[k];
      }
      curvature[i] = information_[i];
      curvature[i][i] += rule_->lasting[i];
      // The prior pulls back as older outcomes lose weight.
      slope[i] = surprise * evidence[i] -
                 (1 - rule_->keep) * rule_->lasting[i] * (weights_[i] - rule_->prior[i]);
    }
    const Values step = solve_positive(curvature, slope);  // by the prior it is definite
    for (std::size_t i = 0; i < N; ++i) {
      weights_[i] = std::clamp(weights_[i] + step[i], rule_->low[i], rule_->high[i]);
    }
  }

 private:
  const Rule* rule_;
  Values weights_;
  std::array<Values, N> information_{};  // of outcomes: sums, older ones weighted less
};

}  // namespace outrider
