// Blocks of GGUF files in panels: the values equal widened ones, in any order of rows.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/stored_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/compute_type.h"
#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cpu/weight_converter.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

constexpr DType kStoredTypes[] = {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0,
                                  DType::kQ5_1, DType::kQ4_K, DType::kQ5_K,   DType::kQ6_K,
                                  DType::kQ2_K, DType::kQ3_K, DType::kIQ4_NL, DType::kIQ4_XS};
constexpr std::int64_t kStoredOutputs = 20, kStoredInputs = 512;

// Where a block's f16 numbers lie.
std::vector<std::int64_t> places_of_halves(DType dtype) {
  switch (dtype) {
    case DType::kQ6_K:
      return {208};
    case DType::kQ3_K:
      return {108};
    case DType::kQ2_K:
      return {80, 82};
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return {0, 2};
    default:
      return {0};
  }
}

// Random bytes, in which all f16 numbers are finite: of either sign, some of them subnormal.
std::string random_blocks(DType dtype) {
  std::mt19937 generator(static_cast<unsigned>(dtype));
  const std::int64_t blocks = kStoredOutputs * kStoredInputs / block_elements(dtype);
  std::string bytes(static_cast<std::size_t>(blocks * block_bytes(dtype)), '\0');
  for (char& byte : bytes) byte = static_cast<char>(generator() & 0xff);
  for (std::int64_t block = 0; block < blocks; ++block) {
    for (const std::int64_t at : places_of_halves(dtype)) {
      const auto half = static_cast<std::uint16_t>(generator() & 0x8fff);
      std::memcpy(bytes.data() + block * block_bytes(dtype) + at, &half, sizeof(half));
    }
  }
  return bytes;
}

class ConvertedBlocksTest : public testing::Test {
 protected:
  // Random blocks in a file, as the converter releases the pages that it has read; until the next.
  TensorView blocks_of(DType dtype) {
    file_.reset();
    directory_.write("blocks", random_blocks(dtype));
    file_ = *MappedFile::open(directory_.path("blocks"));
    return {.dtype = dtype,
            .shape = {kStoredOutputs, kStoredInputs},
            .data = file_->bytes().data(),
            .num_bytes = file_->bytes().size()};
  }

  // Its panels have every value bit for bit. Their format.
  QuantFormat convert(const TensorView& tensor, ComputeType type) {
    WeightMatrix matrix = computed_matrix(tensor, type, false);
    EXPECT_EQ(matrix.type, WeightType::kQuantized);
    WeightArena arena;
    const Status converted = converter_.convert(tensor, matrix, arena);
    if (!converted.ok()) {
      ADD_FAILURE() << converted.to_string();
      return matrix.format;
    }
    std::vector<float> expected(kStoredInputs), row(kStoredInputs);
    for (std::int64_t n = 0; n < kStoredOutputs; ++n) {
      widen(tensor, n * kStoredInputs, expected);
      read_panel_row(matrix.format, kStoredInputs, static_cast<const std::byte*>(matrix.data), n,
                     row.data());
      EXPECT_EQ(0, std::memcmp(row.data(), expected.data(), kStoredInputs * sizeof(float)))
          << to_string(tensor.dtype) << " row " << n;
    }
    return matrix.format;
  }

 private:
  ThreadPool pool_{2};
  WeightConverter converter_{kernels_for(available_vector_targets().front()), pool_};
  const TestDirectory directory_;
  std::shared_ptr<const MappedFile> file_;
};

TEST_F(ConvertedBlocksTest, PanelsHoldEveryValue) {
  for (const DType dtype : kStoredTypes) {
    TensorView tensor = blocks_of(dtype);
    for (const std::int64_t interleaved : {0, 10}) {
      tensor.interleaved = interleaved;
      const std::uint8_t stored_bits = stored_format(dtype)->bits;
      EXPECT_EQ(convert(tensor, ComputeType::kAuto).bits, stored_bits) << to_string(dtype);
      EXPECT_EQ(convert(tensor, ComputeType::kInt8).bits, stored_bits == 4 ? 8 : stored_bits)
          << to_string(dtype);
    }
  }
}

// Groups of 32 columns that part from their block keep their numbers, in f32 scales; whole blocks
// keep their units.
TEST_F(ConvertedBlocksTest, PanelsOfMovedColumnsHoldEveryValue) {
  for (const DType dtype : kStoredTypes) {
    TensorView tensor = blocks_of(dtype);
    for (const std::int64_t run : {32, 256}) {
      auto order = std::make_shared<std::vector<std::int32_t>>();
      for (std::int64_t k = 0; k < kStoredInputs; ++k) {
        order->push_back(static_cast<std::int32_t>((k + run) % kStoredInputs));
      }
      if (run == 32) std::swap_ranges(order->begin(), order->begin() + 32, order->begin() + 96);
      tensor.column_order = order;
      QuantFormat expected = *stored_format(dtype);
      if (run == 32 && expected.scales == ScaleType::kMultiples) {
        expected.scales = ScaleType::kF32;
        if (dtype == DType::kQ6_K) expected.bits = 8;
      }
      EXPECT_EQ(convert(tensor, ComputeType::kAuto), expected)
          << to_string(dtype) << " runs of " << run;
    }
  }
}

TEST(StoredBlocksTest, TypesOfSingleElementsHaveNone) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_FALSE(stored_format(dtype).has_value());
  }
}

// int8 keeps all blocks; int4 those of 4 bits, and quantises others again.
TEST(StoredBlocksTest, ACheaperTypeKeepsBlocksThatFitIt) {
  for (const DType dtype : kStoredTypes) {
    const TensorView tensor{.dtype = dtype, .shape = {kStoredOutputs, kStoredInputs}};
    const QuantFormat stored = *stored_format(dtype);
    const QuantFormat int8 = computed_matrix(tensor, ComputeType::kInt8, false).format;
    const QuantFormat int4 = computed_matrix(tensor, ComputeType::kInt4, false).format;
    EXPECT_TRUE(keeps_blocks(int8, stored)) << to_string(dtype);
    EXPECT_EQ(int4, stored.bits == 4 ? stored : (QuantFormat{.bits = 4, .has_minimum = true}))
        << to_string(dtype);
    EXPECT_EQ(computed_matrix(tensor, ComputeType::kInt4, true).format, int8) << to_string(dtype);
    EXPECT_EQ(keeps_blocks(int4, stored), stored.bits == 4) << to_string(dtype);
  }
}

TEST(WeightArenaTest, WhatIsTakenIsZeroAndItsOwn) {
  WeightArena arena;
  std::byte* const first = *arena.take(100);
  std::byte* second = *arena.take(1000);
  EXPECT_EQ(second, first + 128);
  std::fill_n(second, 1000, std::byte{1});
  arena.give_back(second);
  second = *arena.take(2000);
  EXPECT_EQ(second, first + 128);
  EXPECT_EQ(std::count(second, second + 2000, std::byte{0}), 2000);
  constexpr std::int64_t kLarge = 65 << 20;  // more than is mapped at once
  std::byte* const large = *arena.take(kLarge);
  EXPECT_EQ(large[kLarge - 1], std::byte{0});
  EXPECT_EQ(*first, std::byte{0}) << "still there";
}

// f16 scales are tried first, in the same memory.
TEST(WeightArenaTest, ScalesThatNeedF32LeaveNothingOfTheirFirstTry) {
  constexpr std::int64_t kOutputs = 17, kInputs = 40;
  std::vector<float> values(kOutputs * kInputs);
  std::mt19937 random(5);
  for (float& value : values) value = std::uniform_real_distribution<float>(-1e-6f, 1e-6f)(random);
  const std::size_t num_bytes = values.size() * sizeof(float);
  TestDirectory directory;
  directory.write("values", {reinterpret_cast<const char*>(values.data()), num_bytes});
  const std::unique_ptr<MappedFile> file = *MappedFile::open(directory.path("values"));
  const TensorView tensor{.dtype = DType::kF32,
                          .shape = {kOutputs, kInputs},
                          .data = file->bytes().data(),
                          .num_bytes = num_bytes};
  ThreadPool pool(1);
  WeightConverter converter(kernels_for(available_vector_targets().front()), pool);
  WeightArena arena, other;
  WeightMatrix tried = computed_matrix(tensor, ComputeType::kInt8, false);
  ASSERT_EQ(tried.format.scales, ScaleType::kF16);
  WeightMatrix wide = tried;
  wide.format.scales = ScaleType::kF32;
  ASSERT_TRUE(converter.convert(tensor, tried, arena).ok());
  ASSERT_TRUE(converter.convert(tensor, wide, other).ok());
  EXPECT_EQ(tried.format, wide.format);
  EXPECT_EQ(0, std::memcmp(tried.data, wide.data, static_cast<std::size_t>(bytes_of(wide))));
}

}  // namespace
}  // namespace outrider
