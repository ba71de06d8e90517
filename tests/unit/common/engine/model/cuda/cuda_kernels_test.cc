// The CUDA kernels by fibers, in orders that seeds draw, against the CPU's kernels: no bit may
// differ. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/engine/model/cuda/cases/case_memory.h"
#include "common/engine/model/cuda/cases/kernel_cases.h"
#include "common/engine/model/cuda/fibers/fibers.h"

namespace outrider::gpu {
namespace {

#ifdef OUTRIDER_SANITIZED
constexpr bool kIsSlow = true;
#else
constexpr bool kIsSlow = false;
#endif

class CudaKernelsTest : public ::testing::Test {
 protected:
  CaseContext context(std::uint64_t seed) {
    fibers::set_seed(seed);
    return {kernels_for(best_vector_target()), memory_, seed + 100};
  }
  static void expect_equal(const CaseResult& result, std::uint64_t seed) {
    EXPECT_GT(result.outputs, 0) << result.name;
    EXPECT_EQ(result.different, 0) << result.name << ", seed " << seed << ", of " << result.outputs;
    EXPECT_EQ(result.not_numbers, 0) << result.name << ", seed " << seed;
  }

 private:
  HostMemory memory_;
};

std::vector<std::int64_t> some_rows(bool is_short) {
  if (is_short) return {1, 9, 33};
  return {1, 2, 5, 8, 9, 16, 17, 32, 33, 64, 80, 81};
}

TEST_F(CudaKernelsTest, ProductsOfEveryKindHaveTheCpusBits) {
  std::uint64_t seed = 0;
  for (const WeightKind& kind : weight_kinds()) {
    for (const std::int64_t rows : some_rows(kIsSlow)) {
      const std::int64_t inputs = std::vector<std::int64_t>{576, 896, 1000}[seed % 3];
      const ProductShape shape{rows, {72, 100, 17}, inputs};
      expect_equal(check_product(context(seed), kind, shape), seed);
      ++seed;
    }
  }
}

TEST_F(CudaKernelsTest, EveryCutOfAProductHasTheSameBits) {
  std::uint64_t seed = 1000;
  for (const WeightKind& kind : weight_kinds()) {
    if (kind.type != WeightType::kQuantized) continue;
    for (const int tiles : {1, 2, 4, 8, 16, 32}) {
      for (const int depth : {1, 2}) {
        if (depth == 2 && tiles > 1) continue;  // alike
        const std::int64_t rows = tiles < 32 ? 19 : 41;
        const ProductShape shape{rows, {50}, 832 + 32 * static_cast<std::int64_t>(seed % 7)};
        expect_equal(check_product(context(seed), kind, shape, {tiles, depth}), seed);
        ++seed;
      }
    }
  }
}

// So long that every stage in shared memory is filled again.
TEST_F(CudaKernelsTest, LongSums) {
  std::uint64_t seed = 1500;
  for (const WeightKind& kind : weight_kinds()) {
    if (kind.type != WeightType::kQuantized) {
      expect_equal(check_product(context(seed), kind, {3, {40}, 5000}), seed);
      ++seed;
      continue;
    }
    for (const cuda::ProductChoice& choice :
         {cuda::ProductChoice{1, 1}, {1, 2}, {2, 1}, {4, 1}, {8, 1}}) {
      expect_equal(check_product(context(seed), kind, {3, {40}, 5000}, choice), seed);
      ++seed;
    }
  }
}

// So many blocks that two share a multiprocessor, and each has fewer stages.
TEST_F(CudaKernelsTest, ManyBlocks) {
  std::uint64_t seed = 1800;
  for (const std::size_t kind : {0, 6}) {
    for (const int tiles : {1, 2, 4}) {
      if (kIsSlow && tiles < 4) continue;
      const ProductShape shape{32 * tiles, {1100}, 1400};
      expect_equal(check_product(context(seed), weight_kinds()[kind], shape, {tiles, 1}), seed);
      ++seed;
    }
  }
}

TEST_F(CudaKernelsTest, SmallAndNarrowProducts) {
  std::uint64_t seed = 2000;
  for (const WeightKind& kind : weight_kinds()) {
    for (const std::int64_t inputs : {1, 16, 31, 40, 300}) {
      expect_equal(check_product(context(seed), kind, {3, {1, 16}, inputs}), seed);
      ++seed;
    }
  }
}

// A level reads the first inputs of a wider matrix.
TEST_F(CudaKernelsTest, ALevelsProductsEndWhereItEnds) {
  std::uint64_t seed = 2500;
  for (const WeightKind& kind : weight_kinds()) {
    for (const std::int64_t rows : {1, 7, 20, 41}) {
      const std::int64_t inputs = 32 * (1 + static_cast<std::int64_t>(seed % 12));
      expect_equal(check_product(context(seed), kind, {rows, {40, 17}, inputs, 416}), seed);
      ++seed;
    }
  }
}

TEST_F(CudaKernelsTest, RowsHaveTheCpusBits) {
  std::uint64_t seed = 3000;
  for (const std::int64_t count : {1, 40, 576, 896, 1000}) {
    for (const std::int64_t rows : {5, 13}) {  // few rows are shared by blocks
      for (const CaseResult& result : check_rows(context(seed), rows, count)) {
        expect_equal(result, seed);
      }
      ++seed;
    }
  }
}

TEST_F(CudaKernelsTest, HeadsGoToTheirSlots) {
  std::uint64_t seed = 4000;
  for (const std::int64_t head_dim : {64, 80, 128, 40}) {
    for (const bool is_bf16 : {false, true}) {
      const cuda::Heads shape{6, 2, head_dim};
      expect_equal(check_placement(context(seed), 7, shape, is_bf16), seed);
      ++seed;
    }
  }
}

TEST_F(CudaKernelsTest, ChoicesAreTheCpus) {
  std::uint64_t seed = 7000;
  for (const std::int64_t tokens : {1, 63, 200, 3072, 4097, 9000}) {
    for (int i = 0; i < (kIsSlow ? 1 : 3); ++i) {
      expect_equal(check_choices(context(seed), kIsSlow ? 8 : 24, tokens), seed);
      ++seed;
    }
  }
}

TEST_F(CudaKernelsTest, NoiseOfChoicesHasTheCpusBits) {
  expect_equal(check_noise(context(8000), kIsSlow ? 500 : 4000), 8000);
}

TEST_F(CudaKernelsTest, AttentionHasTheCpusBits) {
  const std::vector<AttentionShape> shapes = {
      {{4, 4, 64}, 1, 0, 0, true},
      {{4, 2, 64}, 9, 200, 0, false},
      {{2, 2, 128}, 5, 1023, 0, true},
      {{9, 3, 64}, 6, 70, 0, true},
      {{3, 1, 80}, 4, 2100, 0, false},
      {{14, 2, 64}, 3, 130, 100, true},
      {{2, 1, 96}, 12, 1100, 300, true},
      {{2, 1, 64}, 1, 66, 2, true},            // ends within four positions
      {{3, 1, 80}, 4, 60, 0, false},           // a page that is full
      {{4, 4, 64}, 11, 190, 100, true, true},  // a chain of which each begins later
      {{2, 1, 64}, 9, 1019, 0, false, true}};  // of which some end with a part
  std::uint64_t seed = 5000;
  for (const AttentionShape& shape : shapes) {
    for (int i = 0; i < (kIsSlow ? 1 : 4); ++i) {
      expect_equal(check_attention(context(seed), shape), seed);
      ++seed;
    }
  }
}

}  // namespace
}  // namespace outrider::gpu
