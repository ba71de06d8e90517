// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "common/engine/sampling/sampling.h"
#include "tests/unit/common/engine/sampling/allocation_counter.h"

namespace outrider {
namespace {

TEST(Choose, AllocatesNothingOnceWarm) {
  std::vector<float> logits;
  for (int i = 0; i < 5000; ++i) logits.push_back(static_cast<float>(i * 7919 % 5003) / 500.0f);
  std::int64_t before = 0;
  for (int round = 0; round < 2; ++round) {
    before = num_allocations();
    for (const SamplingParams& params :
         {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 1},
          SamplingParams{.temperature = 0.7f, .top_k = 40},
          SamplingParams{.temperature = 0.7f, .top_p = 0.9f},
          SamplingParams{.temperature = 1.3f, .top_k = 50, .top_p = 0.95f, .min_p = 0.02f}}) {
      for (Position t = 0; t < 5; ++t) (void)choose(logits, params, 1, t);
    }
  }
  EXPECT_EQ(num_allocations(), before);
}

}  // namespace
}  // namespace outrider
