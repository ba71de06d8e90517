// Every instruction set against the same numbers.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tests/unit/common/engine/model/cpu/kernels/attention_sample.h"
#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"
#include "tests/unit/common/engine/model/cpu/kernels/matmul_sample.h"

namespace outrider {
namespace {

using KernelsTest = EachTargetTest;

// The expected numbers were equal on AVX2, AVX-512 and NEON when they were recorded.
TEST_P(KernelsTest, BitsAreThoseOfEveryOtherCpu) {
  std::uint64_t h = kHashStart;
  const MatmulSample product(kernels(), 7, 20, 700);
  const auto first = std::span(kKinds).first<10>();
  for (const Kind& kind : first) h = hash(h, product.run(kernels(), kind, 0, 7));
  EXPECT_EQ(h, 15558512341172244178u) << "matrix products";
  const auto others = std::span(kKinds).subspan<10, 4>();
  for (const Kind& kind : others) h = hash(h, product.run(kernels(), kind, 0, 7));
  EXPECT_EQ(h, 9375886986246838646u) << "matrix products with tables and half groups";
  // Recorded on AVX2, where plain loops have the same bits (multiples_test.cc).
  const auto multiples = std::span(kKinds).subspan<14>();
  for (const Kind& kind : multiples) h = hash(h, product.run(kernels(), kind, 0, 7));
  EXPECT_EQ(h, 15120338019307036002u) << "matrix products with multiples as scales";
  std::vector<float> x = random_values(608, 3);
  const std::vector<float> weight = random_values(608, 4);
  kernels().rms_norm(x.data(), weight.data(), 600, 1e-5f, x.data());
  kernels().silu_multiply(x.data(), weight.data(), 608);
  EXPECT_EQ(hash(kHashStart, x), 16757822816930267059u) << "norm and activation";
  for (const bool is_bf16 : {false, true}) {
    const AttentionSample sample{.head_dim = 80, .slots = 1150, .queries = 2, .is_bf16 = is_bf16};
    const auto out = sample.run(kernels(), {slots_in_order(1150)}, {20});
    EXPECT_EQ(hash(kHashStart, out), is_bf16 ? 17439825699008263053u : 5047061434571425191u)
        << "attention";
  }
}

INSTANTIATE_TEST_SUITE_P(EachTarget, KernelsTest, ::testing::ValuesIn(available_vector_targets()),
                         target_name);

}  // namespace
}  // namespace outrider
