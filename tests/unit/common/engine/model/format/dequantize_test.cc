// The block types by blocks computed by hand; tests/golden compares them with the reference.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/dequantize.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "common/engine/gguf/gguf_types.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {
namespace {

constexpr std::array<DType, 12> kBlockTypes = {
    DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,   DType::kQ4_K,
    DType::kQ5_K, DType::kQ6_K, DType::kQ2_K, DType::kQ3_K, DType::kIQ4_NL, DType::kIQ4_XS};

std::string half(float value) {
  const std::uint16_t bits = to_f16(value);
  return {static_cast<char>(bits & 0xff), static_cast<char>(bits >> 8)};
}

std::vector<float> dequantized(DType dtype, const std::string& block) {
  EXPECT_EQ(static_cast<std::int64_t>(block.size()), block_bytes(dtype));
  std::vector<float> values(static_cast<std::size_t>(block_elements(dtype)));
  dequantize_block(dtype, reinterpret_cast<const std::byte*>(block.data()), values.data());
  return values;
}

TEST(DequantizeTest, BlocksOfEightBits) {
  std::string block = half(0.5f);
  for (int i = 0; i < 32; ++i) block += static_cast<char>(i - 16);
  const std::vector<float> values = dequantized(DType::kQ8_0, block);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], 0.5f * (i - 16));
}

// Byte i: low half i, high half 15 - i; the fifth bit of every element 3 in 4 is set.
TEST(DequantizeTest, BlocksOfFourAndFiveBits) {
  std::string q;
  for (int i = 0; i < 16; ++i) q += static_cast<char>(i | (15 - i) << 4);
  const std::string fifth(4, '\x77');
  const std::vector<float> q4_0 = dequantized(DType::kQ4_0, half(2) + q);
  const std::vector<float> q4_1 = dequantized(DType::kQ4_1, half(2) + half(-3) + q);
  const std::vector<float> q5_0 = dequantized(DType::kQ5_0, half(2) + fifth + q);
  const std::vector<float> q5_1 = dequantized(DType::kQ5_1, half(2) + half(-3) + fifth + q);
  for (int i = 0; i < 32; ++i) {
    const int four = i < 16 ? i : 31 - i;
    const int five = four + (i % 4 == 3 ? 0 : 16);
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(q4_0[at], 2.0f * static_cast<float>(four - 8)) << i;
    EXPECT_EQ(q4_1[at], 2.0f * static_cast<float>(four) - 3) << i;
    EXPECT_EQ(q5_0[at], 2.0f * static_cast<float>(five - 16)) << i;
    EXPECT_EQ(q5_1[at], 2.0f * static_cast<float>(five) - 3) << i;
  }
}

// Group g has scale 7g + 5 and minimum 63 - 8g, packed as the format describes.
std::string packed_scales() {
  std::array<int, 12> bytes{};
  for (int g = 0; g < 8; ++g) {
    const int scale = 7 * g + 5;
    const int minimum = 63 - 8 * g;
    if (g < 4) {
      bytes[static_cast<std::size_t>(g)] |= scale;
      bytes[static_cast<std::size_t>(g + 4)] |= minimum;
    } else {
      bytes[static_cast<std::size_t>(g + 4)] |= (scale & 15) | (minimum & 15) << 4;
      bytes[static_cast<std::size_t>(g - 4)] |= scale >> 4 << 6;
      bytes[static_cast<std::size_t>(g)] |= minimum >> 4 << 6;
    }
  }
  return {bytes.begin(), bytes.end()};
}

TEST(DequantizeTest, ScalesOfSixBitsAreUnpacked) {
  const std::string packed = packed_scales();
  for (int g = 0; g < 8; ++g) {
    const GroupScale scale =
        unpack_group_scale(reinterpret_cast<const std::byte*>(packed.data()), g);
    EXPECT_EQ(scale.scale, 7 * g + 5);
    EXPECT_EQ(scale.minimum, 63 - 8 * g);
  }
}

// Element i of group g is (i + g) % 16, or % 32 with fifth bits.
TEST(DequantizeTest, BlocksOfGroupsWithMinima) {
  std::string four(128, '\0');
  std::string fifth(32, '\0');
  for (int g = 0; g < 8; ++g) {
    for (int i = 0; i < 32; ++i) {
      four[static_cast<std::size_t>(g / 2 * 32 + i)] |=
          static_cast<char>(((i + g) % 16) << (g % 2 * 4));
      fifth[static_cast<std::size_t>(i)] |= static_cast<char>(((i + g) % 32 / 16) << g);
    }
  }
  const std::string scales = half(0.5f) + half(0.25f) + packed_scales();
  const std::vector<float> q4 = dequantized(DType::kQ4_K, scales + four);
  const std::vector<float> q5 = dequantized(DType::kQ5_K, scales + fifth + four);
  for (int g = 0; g < 8; ++g) {
    const float d = 0.5f * static_cast<float>(7 * g + 5);
    const float m = 0.25f * static_cast<float>(63 - 8 * g);
    for (int i = 0; i < 32; ++i) {
      const auto at = static_cast<std::size_t>(g * 32 + i);
      EXPECT_EQ(q4[at], d * static_cast<float>((i + g) % 16) - m) << at;
      EXPECT_EQ(q5[at], d * static_cast<float>((i + g) % 32) - m) << at;
    }
  }
}

// Element e is e % 64; groups of 16 have scales -8..7.
TEST(DequantizeTest, BlocksOfSixBits) {
  std::string low(128, '\0');
  std::string high(64, '\0');
  for (int e = 0; e < 256; ++e) {
    const int value = e % 64;
    const int run = e % 128 / 32;
    low[static_cast<std::size_t>(e / 128 * 64 + run % 2 * 32 + e % 32)] |=
        static_cast<char>((value & 15) << (run / 2 * 4));
    high[static_cast<std::size_t>(e / 128 * 32 + e % 32)] |=
        static_cast<char>((value >> 4) << (2 * run));
  }
  std::string scales;
  for (int i = 0; i < 16; ++i) scales += static_cast<char>(i - 8);
  const std::vector<float> values = dequantized(DType::kQ6_K, low + high + scales + half(0.5f));
  for (int e = 0; e < 256; ++e) {
    const float scale = 0.5f * static_cast<float>(e / 16 - 8);
    EXPECT_EQ(values[static_cast<std::size_t>(e)], scale * static_cast<float>(e % 64 - 32)) << e;
  }
}

// Two bits of element e are e % 4.
std::string pairs_of_bits() {
  std::string bits(64, '\0');
  for (int e = 0; e < 256; ++e) {
    bits[static_cast<std::size_t>(e / 128 * 32 + e % 32)] |=
        static_cast<char>((e % 4) << (e % 128 / 32 * 2));
  }
  return bits;
}

TEST(DequantizeTest, BlocksOfTwoBits) {
  std::string scales;
  for (int i = 0; i < 16; ++i) scales += static_cast<char>(i | (15 - i) << 4);
  const std::vector<float> values =
      dequantized(DType::kQ2_K, scales + pairs_of_bits() + half(0.5f) + half(0.25f));
  for (int e = 0; e < 256; ++e) {
    const int scale = e / 16;
    EXPECT_EQ(values[static_cast<std::size_t>(e)],
              0.5f * static_cast<float>(scale * (e % 4)) - 0.25f * static_cast<float>(15 - scale))
        << e;
  }
}

// Group g of 16 has scale 4g - 32.
TEST(DequantizeTest, BlocksOfThreeBits) {
  std::string third(32, '\0');
  for (int e = 0; e < 256; ++e) {
    third[static_cast<std::size_t>(e % 32)] |= static_cast<char>(e / 16 % 2 << (e / 32));
  }
  std::string scales(12, '\0');
  for (int g = 0; g < 16; ++g) {
    scales[static_cast<std::size_t>(g % 8)] |= static_cast<char>((4 * g & 15) << (g / 8 * 4));
    scales[static_cast<std::size_t>(8 + g % 4)] |= static_cast<char>(4 * g >> 4 << (g / 4 * 2));
  }
  const std::vector<float> values =
      dequantized(DType::kQ3_K, third + pairs_of_bits() + scales + half(0.5f));
  for (int e = 0; e < 256; ++e) {
    const int value = e % 4 + (e / 16 % 2 == 0 ? -4 : 0);
    EXPECT_EQ(values[static_cast<std::size_t>(e)],
              0.5f * static_cast<float>((4 * (e / 16) - 32) * value))
        << e;
  }
}

// Byte i of a group holds i and 15 - i; the scale of group g is 8g - 32.
TEST(DequantizeTest, BlocksOfIndicesOfATable) {
  std::string q;
  for (int i = 0; i < 16; ++i) q += static_cast<char>(i | (15 - i) << 4);
  std::string low(4, '\0'), high(2, '\0'), all;
  for (int g = 0; g < 8; ++g) {
    low[static_cast<std::size_t>(g / 2)] |= static_cast<char>((8 * g & 15) << (g % 2 * 4));
    high[static_cast<std::size_t>(g / 4)] |= static_cast<char>(8 * g >> 4 << (g % 4 * 2));
    all += q;
  }
  const std::vector<float> nl = dequantized(DType::kIQ4_NL, half(0.5f) + q);
  const std::vector<float> xs = dequantized(DType::kIQ4_XS, half(0.5f) + high + low + all);
  for (int e = 0; e < 256; ++e) {
    const int index = e % 32 < 16 ? e % 32 : 31 - e % 32;
    const float value = kIq4Values[static_cast<std::size_t>(index)];
    if (e < 32) {
      EXPECT_EQ(nl[static_cast<std::size_t>(e)], 0.5f * value) << e;
    }
    EXPECT_EQ(xs[static_cast<std::size_t>(e)], 0.5f * static_cast<float>(8 * (e / 32) - 32) * value)
        << e;
  }
}

std::string pseudo_random_bytes(std::size_t size) {
  std::string bytes;
  std::uint32_t state = 1;
  while (bytes.size() < size) {
    state = state * 1664525 + 1013904223;
    bytes += static_cast<char>((state >> 24) & 0x3f);  // scales stay finite
  }
  return bytes;
}

TEST(DequantizeTest, AnyPartOfATensorIsAsInTheWhole) {
  for (const DType dtype : kBlockTypes) {
    const std::int64_t columns = 3 * block_elements(dtype);
    TensorView view{.dtype = dtype, .shape = {2, columns}};
    const std::string bytes = pseudo_random_bytes(static_cast<std::size_t>(6 * block_bytes(dtype)));
    view.data = reinterpret_cast<const std::byte*>(bytes.data());
    view.num_bytes = bytes.size();
    ASSERT_EQ(view.num_elements(), 2 * columns);
    EXPECT_EQ(view.row_bytes(), 3 * block_bytes(dtype));
    std::vector<float> whole(static_cast<std::size_t>(2 * columns));
    widen(view, 0, whole);
    for (const std::int64_t begin : {std::int64_t{0}, std::int64_t{1}, columns - 5, columns + 3}) {
      for (const std::int64_t size :
           {std::int64_t{0}, std::int64_t{1}, std::int64_t{9}, columns - 3}) {
        std::vector<float> part(static_cast<std::size_t>(size));
        widen(view, begin, part);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin))
            << to_string(dtype) << " from " << begin << ", " << size;
      }
    }
  }
}

TEST(DequantizeTest, SizesAndNamesAreThoseOfTheFormat) {
  for (const auto type :
       {GgufTensorType::kF32, GgufTensorType::kF16, GgufTensorType::kBF16, GgufTensorType::kQ8_0,
        GgufTensorType::kQ4_0, GgufTensorType::kQ4_1, GgufTensorType::kQ5_0, GgufTensorType::kQ5_1,
        GgufTensorType::kQ4_K, GgufTensorType::kQ5_K, GgufTensorType::kQ6_K, GgufTensorType::kQ2_K,
        GgufTensorType::kQ3_K, GgufTensorType::kIQ4_NL, GgufTensorType::kIQ4_XS}) {
    const GgufTensorTypeInfo& info = info_of(type);
    const auto same = [&info](DType dtype) { return to_string(dtype) == info.name; };
    std::vector<DType> dtypes = {DType::kF32, DType::kF16, DType::kBF16};
    dtypes.insert(dtypes.end(), kBlockTypes.begin(), kBlockTypes.end());
    const auto found = std::find_if(dtypes.begin(), dtypes.end(), same);
    ASSERT_NE(found, dtypes.end()) << info.name;
    EXPECT_EQ(block_elements(*found), info.block_elements) << info.name;
    EXPECT_EQ(block_bytes(*found), info.block_bytes) << info.name;
  }
}

// Two heads of four rows: each stored as 0, 2, 1, 3 of the model's order.
TEST(TensorViewTest, InterleavedRowsAreReadInTheModelsOrder) {
  const std::vector<float> stored = {0, 0.5f, 2, 2.5f, 1, 1.5f, 3, 3.5f,
                                     4, 4.5f, 6, 6.5f, 5, 5.5f, 7, 7.5f};
  TensorView view{.dtype = DType::kF32, .shape = {8, 2}};
  view.data = reinterpret_cast<const std::byte*>(stored.data());
  view.num_bytes = stored.size() * sizeof(float);
  view.interleaved = 4;
  std::vector<float> values(16);
  widen(view, 0, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], 0.5f * static_cast<float>(i));
  std::vector<float> part(5);
  widen(view, 3, part);
  for (std::size_t i = 0; i < part.size(); ++i) {
    EXPECT_EQ(part[i], 0.5f * static_cast<float>(i + 3));
  }
  for (std::int64_t row = 0; row < 8; ++row) {
    float first = 0;
    std::memcpy(&first, view.row(row), sizeof(first));
    EXPECT_EQ(first, static_cast<float>(row));
  }
}

}  // namespace
}  // namespace outrider
