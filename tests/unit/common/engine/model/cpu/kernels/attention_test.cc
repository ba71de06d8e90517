// Attention against a plain f64 reference, and with any other rows in the call.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "tests/unit/common/engine/model/cpu/kernels/attention_sample.h"
#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"

namespace outrider {
namespace {

using AttentionTest = EachTargetTest;

TEST_P(AttentionTest, AttentionAgreesWithTheReference) {
  for (const bool is_bf16 : {false, true}) {
    for (const std::int64_t head_dim : {8, 64, 80}) {
      const AttentionSample sample{
          .head_dim = head_dim, .slots = 1100, .queries = 3, .is_bf16 = is_bf16};
      std::vector<std::int32_t> path = slots_in_order(1100);
      std::reverse(path.begin(), path.end());
      for (const std::size_t length : {1, 5, 64, 65, 200, 1024, 1100}) {
        const std::vector<std::int32_t> seen(path.begin(),
                                             path.begin() + static_cast<std::ptrdiff_t>(length));
        for (const std::int64_t begin : {std::int64_t{0}, static_cast<std::int64_t>(length) / 2}) {
          const std::vector<float> out = sample.run(kernels(), {seen}, {begin});
          for (std::int64_t i = 0; i < 3 * head_dim; ++i) {
            const std::int64_t q = i / head_dim;
            const std::int64_t element = i % head_dim;
            ASSERT_NEAR(out[static_cast<std::size_t>(q * sample.stride + element)],
                        sample.reference(seen, begin, q, element), 1e-6)
                << "head " << head_dim << " length " << length;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, AttentionDoesNotDependOnWhereSlotsLie) {
  AttentionSample sample{.head_dim = 32, .slots = 150, .queries = 2};
  const std::vector<std::int32_t> path = slots_in_order(150);
  const std::vector<float> in_order = sample.run(kernels(), {path}, {10});
  std::vector<std::int32_t> shuffled = path;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  AttentionSample moved = sample;
  for (std::size_t t = 0; t < path.size(); ++t) {
    const auto from = static_cast<std::ptrdiff_t>(t) * sample.stride;
    const auto to = static_cast<std::ptrdiff_t>(shuffled[t]) * sample.stride;
    std::copy_n(sample.keys.begin() + from, sample.stride, moved.keys.begin() + to);
    std::copy_n(sample.values.begin() + from, sample.stride, moved.values.begin() + to);
  }
  EXPECT_EQ(in_order, moved.run(kernels(), {shuffled}, {10}));
}

// Rows of a chain, of branches that part within a block, of windows, and of other lengths.
TEST_P(AttentionTest, ARowsAttentionHasTheSameBitsBesideOthers) {
  for (const std::int64_t queries : {1, 3, 8}) {
    const AttentionSample sample{.head_dim = 48, .slots = 1200, .queries = queries};
    std::vector<std::vector<std::int32_t>> paths;
    std::vector<std::int64_t> begins;
    const std::vector<std::int32_t> all = slots_in_order(1200);
    for (const std::int32_t length : {70, 71, 72, 128, 90, 1030, 1030, 3}) {
      paths.emplace_back(all.begin(), all.begin() + length);
      begins.push_back(length == 90 ? 37 : 0);
    }
    for (const std::int32_t branch : {1, 2, 3}) {
      paths.emplace_back(all.begin(), all.begin() + 100);
      for (std::size_t t = 80; t < 100; ++t) paths.back()[t] = 200 * branch + paths.back()[t];
      begins.push_back(0);
    }
    const std::vector<float> together = sample.run(kernels(), paths, begins);
    for (std::size_t r = 0; r < paths.size(); ++r) {
      const std::vector<float> alone = sample.run(kernels(), {paths[r]}, {begins[r]});
      EXPECT_EQ(0, std::memcmp(alone.data(), together.data() + r * alone.size(),
                               alone.size() * sizeof(float)))
          << "row " << r << ", " << queries << " queries";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachTarget, AttentionTest, ::testing::ValuesIn(available_vector_targets()),
                         target_name);

}  // namespace
}  // namespace outrider
