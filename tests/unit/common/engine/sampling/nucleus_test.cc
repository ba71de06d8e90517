// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/nucleus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/philox.h"
#include "tests/unit/common/engine/sampling/float_values.h"

namespace outrider {
namespace {

std::vector<float> weights_of(std::vector<float> scores) {
  scores.resize((scores.size() + kNoiseGroup - 1) / kNoiseGroup * kNoiseGroup, -kInfinity);
  std::vector<float> weights(scores.size());
  exp_row(scores, weights);
  return weights;
}

std::vector<std::uint32_t> nucleus_of(const std::vector<float>& scores, float top_p) {
  Nucleus nucleus;
  const auto places = nucleus.find(scores, weights_of(scores), top_p);
  return {places.begin(), places.end()};
}

// By a sort of everything.
std::vector<std::uint32_t> nucleus_by_definition(const std::vector<float>& scores, float top_p) {
  const std::vector<float> weights = weights_of(scores);
  std::vector<SelectKey> keys;
  select_best(scores, scores.size(), keys);
  const double wanted = double{top_p} * static_cast<double>(sum_weight_units(weights));
  std::vector<std::uint32_t> places;
  std::uint64_t sum = 0;
  for (const SelectKey key : keys) {
    if (!places.empty() && static_cast<double>(sum) >= wanted) break;
    places.push_back(static_cast<std::uint32_t>(token_of(key)));
    sum += weight_units(weights[places.back()]);
  }
  std::sort(places.begin(), places.end());
  return places;
}

TEST(Nucleus, IsThatOfASortOfEverything) {
  for (const std::size_t length : {1u, 50u, 64u, 65u, 700u, 5000u}) {
    for (const float step : {0.0f, 0.001f, 0.125f, 2.0f}) {
      std::vector<float> scores(length);
      for (std::uint32_t i = 0; i < length; ++i) {
        scores[i] = -step * static_cast<float>(philox({i, 0, 0, 0}, {7, 1})[0] % 97);
      }
      scores[length / 2] = 0;
      for (const float top_p : {0.0f, 0.1f, 0.5f, 0.95f, 0.99999f}) {
        EXPECT_EQ(nucleus_of(scores, top_p), nucleus_by_definition(scores, top_p))
            << length << " scores in steps of " << step << ", top_p " << top_p;
      }
    }
  }
}

TEST(Nucleus, OfEqualScoresHasTheLowerPlaces) {
  const std::vector<std::uint32_t> places = nucleus_of(std::vector<float>(1000, 0.0f), 0.5f);
  ASSERT_EQ(places.size(), 500u);
  EXPECT_EQ(places.front(), 0u);
  EXPECT_EQ(places.back(), 499u);
}

TEST(Nucleus, LeavesOutWhatHasNoWeight) {
  std::vector<float> scores(500, -kInfinity);
  for (std::size_t i = 0; i < 100; ++i) scores[i * 5] = -0.0f;
  EXPECT_EQ(nucleus_of(scores, 0.99999994f).size(), 100u);
}

}  // namespace
}  // namespace outrider
