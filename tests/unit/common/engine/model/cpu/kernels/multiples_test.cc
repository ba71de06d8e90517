// Scales that are multiples of units: products have the bits that the same scales have in f32, and
// those of a plain loop. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/format/dtype.h"
#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"

namespace outrider {
namespace {

constexpr std::int64_t kOutputs = 37, kRows = 33;

// Formats of stored blocks, and those with as many bits as `--dtype int8` makes of them.
constexpr QuantFormat kFormats[] = {
    {.bits = 4, .has_minimum = true},                     // Q4_K
    {.bits = 8, .has_minimum = true},                     // Q5_K
    {.bits = 6, .scale_group = 16},                       // Q6_K
    {.bits = 8, .scale_group = 16},                       // Q3_K in 8 bits
    {.bits = 4, .scale_group = 16, .has_minimum = true},  // Q2_K
    {.bits = 8, .scale_group = 16, .has_minimum = true},  // Q2_K in 8 bits
    {.bits = 4, .scale_group = 16},                       // Q3_K
    {.bits = 4, .has_table = true},                       // IQ4_XS
    {.bits = 8},                                          // IQ4_XS in 8 bits
};

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

std::string shown(const QuantFormat& format) {
  return std::to_string(format.bits) + " bits, a scale for " + std::to_string(format.scale_group) +
         (format.has_minimum ? ", minimum" : "") + (format.has_table ? ", table" : "");
}

// One matrix as groups, in panels with multiples, and in panels with their products.
class RandomMatrix {
 public:
  RandomMatrix(QuantFormat format, std::int64_t inputs)
      : inputs_(inputs), groups_((inputs + kQuantGroup - 1) / kQuantGroup) {
    std::mt19937 random(static_cast<unsigned>(inputs) + format.bits + format.scale_group);
    group_.resize(size(kOutputs * groups_));
    Multiples units;
    for (std::int64_t i = 0; i < kOutputs * groups_; ++i) {
      if (i % groups_ % kBlockGroups == 0) {
        units.unit = unit(random);
        units.minimum_unit = unit(random);
      }
      group_[size(i)] = draw(format, units, random);
    }
    format.scales = ScaleType::kMultiples;
    multiples_ = panels(format, multiples_memory_);
    format.scales = ScaleType::kF32;
    if (format.bits == 6) {  // which no scales in f32 have
      format.bits = 8;
      for (WeightGroup& group : group_) {
        for (std::uint8_t& value : group.values) value += 128 - 32;
      }
    }
    products_ = panels(format, products_memory_);
  }

  const WeightMatrix& multiples() const { return multiples_; }
  const WeightMatrix& products() const { return products_; }
  const WeightGroup& group(std::int64_t output, std::int64_t index) const {
    return group_[size(output * groups_ + index)];
  }

 private:
  // An f16 number of either sign, one in four of them subnormal.
  static float unit(std::mt19937& random) {
    const auto bits = static_cast<std::uint16_t>(random() & (random() % 4 == 0 ? 0x83ff : 0xafff));
    return from_f16(bits);
  }

  static WeightGroup draw(const QuantFormat& format, const Multiples& units, std::mt19937& random) {
    WeightGroup group;
    const unsigned most = format.has_minimum && format.bits == 8 ? 128 : 1u << format.bits;
    for (std::uint8_t& value : group.values) value = static_cast<std::uint8_t>(random() % most);
    group.multiples = units;
    float* const minimums[] = {&group.minimum, &group.second_minimum};
    for (int i = 0; i < 2; ++i) {
      const int from = format.scale_group == 32 ? 0 : i;  // both halves have the scale of a whole
      if (from == i) {
        group.multiples.scales[i] = static_cast<std::int8_t>(random() & 0xff);
        group.multiples.minimums[i] = static_cast<std::int8_t>(random() & 0xff);
      }
      group.scales[i] = units.unit * static_cast<float>(group.multiples.scales[from]);
      *minimums[i] = units.minimum_unit * static_cast<float>(group.multiples.minimums[from]);
    }
    return group;
  }

  WeightMatrix panels(const QuantFormat& format, std::vector<std::byte>& memory) const {
    WeightMatrix matrix{
        .type = WeightType::kQuantized, .format = format, .outputs = kOutputs, .inputs = inputs_};
    memory.resize(size(bytes_of(matrix)));
    const PanelWriter writer(format, inputs_, memory.data());
    for (std::int64_t n = 0; n < kOutputs; ++n) {
      for (std::int64_t g = 0; g < groups_; ++g) writer.store(n, g, group(n, g));
    }
    matrix.data = memory.data();
    return matrix;
  }

  std::int64_t inputs_, groups_;
  std::vector<WeightGroup> group_;
  std::vector<std::byte> multiples_memory_, products_memory_;
  WeightMatrix multiples_, products_;
};

// The product of one output and one row, as docs/row-invariance.md states it.
float plain_product(const RandomMatrix& matrix, std::int64_t output, const std::byte* row,
                    std::int64_t inputs) {
  const QuantFormat& format = matrix.products().format;
  const auto scales = static_cast<int>(format.scales_per_group());
  float sum = 0.0f;
  for (std::int64_t g = 0; g * kQuantGroup < inputs; ++g) {
    QuantizedGroup x;
    std::memcpy(&x, row + g * static_cast<std::int64_t>(sizeof(x)), sizeof(x));
    const WeightGroup& w = matrix.group(output, g);
    int activations[2] = {};
    for (int half = 0; half < scales; ++half) {
      std::int32_t exact = 0;
      for (int i = half * 16; i < (scales == 1 ? 32 : half * 16 + 16); ++i) {
        const int value = format.has_table ? kTableValues[w.values[i]] : w.values[i];
        exact += (value - format.zero()) * x.values[i];
        activations[half] += x.values[i];
      }
      const float scale = w.multiples.unit * static_cast<float>(w.multiples.scales[half]);
      sum = std::fma(static_cast<float>(exact), scale * x.scale, sum);
    }
    for (int half = 0; format.has_minimum && half < scales; ++half) {
      const float by = w.multiples.minimum_unit * static_cast<float>(w.multiples.minimums[half]);
      sum = std::fma(by, x.scale * static_cast<float>(activations[half]), sum);
    }
  }
  return sum;
}

using MultiplesTest = EachTargetTest;

std::vector<std::byte> quantized_rows(const Kernels& kernels, std::int64_t inputs) {
  std::vector<float> x(size(pad_to_lanes(inputs)));
  std::vector<std::byte> rows(size(kRows * quantized_row_bytes(inputs)));
  for (std::int64_t r = 0; r < kRows; ++r) {
    const std::vector<float> drawn =
        random_values(size(inputs), static_cast<std::uint32_t>(r) + 100);
    std::copy(drawn.begin(), drawn.end(), x.begin());
    kernels.quantize_row(x.data(), inputs, rows.data() + r * quantized_row_bytes(inputs));
  }
  return rows;
}

std::vector<float> product(const Kernels& kernels, const WeightMatrix& matrix, std::int64_t rows,
                           const std::vector<std::byte>& x) {
  std::vector<float> y(size(rows * kOutputs), -1.0f);
  kernels.matmul(matrix, {rows, pad_to_lanes(matrix.inputs), nullptr, x.data()}, {0, kOutputs},
                 {y.data(), kOutputs, nullptr, false});
  return y;
}

TEST_P(MultiplesTest, ProductsHaveTheBitsOfScalesInF32AndOfAPlainLoop) {
  for (const QuantFormat& format : kFormats) {
    for (const std::int64_t inputs : {40, 256, 512, 1312}) {  // whole blocks and parts of them
      const RandomMatrix matrix(format, inputs);
      const std::vector<std::byte> x = quantized_rows(kernels(), inputs);
      std::vector<float> expected;
      for (std::int64_t r = 0; r < kRows; ++r) {
        for (std::int64_t n = 0; n < kOutputs; ++n) {
          const std::byte* row = x.data() + r * quantized_row_bytes(inputs);
          expected.push_back(plain_product(matrix, n, row, inputs));
        }
      }
      for (std::int64_t rows = 1; rows <= kRows; ++rows) {
        const std::vector<float> y = product(kernels(), matrix.multiples(), rows, x);
        const std::vector<float> in_f32 = product(kernels(), matrix.products(), rows, x);
        const std::size_t bytes = y.size() * sizeof(float);
        ASSERT_EQ(0, std::memcmp(y.data(), expected.data(), bytes))
            << shown(format) << ", " << rows << " rows of " << inputs;
        ASSERT_EQ(0, std::memcmp(y.data(), in_f32.data(), bytes))
            << shown(format) << ", " << rows << " rows of " << inputs;
      }
    }
  }
}

// A level of an elastic model ends within a block.
TEST_P(MultiplesTest, TheFirstInputsOfAWiderMatrixAreAProductOfTheirOwn) {
  constexpr std::int64_t kStored = 1024;
  for (const QuantFormat& format : kFormats) {
    const RandomMatrix matrix(format, kStored);
    for (const std::int64_t inputs : {32, 256, 288, 992}) {
      WeightMatrix level = matrix.multiples();
      level.inputs = inputs;
      level.stored_inputs = kStored;
      const std::vector<std::byte> x = quantized_rows(kernels(), inputs);
      for (const std::int64_t rows : {1, 7, 33}) {
        const std::vector<float> y = product(kernels(), level, rows, x);
        for (std::int64_t i = 0; i < rows * kOutputs; ++i) {
          const std::byte* row = x.data() + i / kOutputs * quantized_row_bytes(inputs);
          const float expected = plain_product(matrix, i % kOutputs, row, inputs);
          ASSERT_EQ(0, std::memcmp(&y[size(i)], &expected, sizeof(expected)))
              << shown(format) << ", " << rows << " rows, " << inputs << " inputs";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachTarget, MultiplesTest, ::testing::ValuesIn(available_vector_targets()),
                         target_name);

TEST(MultiplesLayoutTest, ABlockHasTheBitsOfItsNumbersAndHardlyMore) {
  const auto bits_of = [](QuantFormat format) {
    format.scales = ScaleType::kMultiples;
    const WeightMatrix matrix{
        .type = WeightType::kQuantized, .format = format, .outputs = 32, .inputs = 1024};
    return static_cast<double>(bytes_of(matrix)) * 8 / (32 * 1024);
  };
  EXPECT_EQ(bits_of({.bits = 4, .has_minimum = true}), 4.625);
  EXPECT_EQ(bits_of({.bits = 8, .has_minimum = true}), 8.625);
  EXPECT_EQ(bits_of({.bits = 6, .scale_group = 16}), 6.625);  // 32 bytes of a block are padding
  EXPECT_EQ(bits_of({.bits = 8, .scale_group = 16}), 8.625);
  EXPECT_EQ(bits_of({.bits = 4, .scale_group = 16, .has_minimum = true}), 5.125);
  EXPECT_EQ(bits_of({.bits = 4, .scale_group = 16}), 4.625);
  EXPECT_EQ(bits_of({.bits = 4, .has_table = true}), 4.375);
}

TEST(MultiplesLayoutTest, APanelIsReadBackWeightByWeight) {
  for (const QuantFormat& format : kFormats) {
    const RandomMatrix matrix(format, 800);
    for (std::int64_t n = 0; n < kOutputs; ++n) {
      std::vector<float> row(800), expected(800);
      const WeightMatrix& a = matrix.multiples();
      const WeightMatrix& b = matrix.products();
      read_panel_row(a.format, 800, static_cast<const std::byte*>(a.data), n, row.data());
      read_panel_row(b.format, 800, static_cast<const std::byte*>(b.data), n, expected.data());
      ASSERT_EQ(row, expected) << shown(format) << ", output " << n;
    }
  }
}

// Values of a block begin in a cache line of their own, and no two parts overlap.
TEST(MultiplesLayoutTest, PartsOfABlockLieSideBySide) {
  for (QuantFormat format : kFormats) {
    format.scales = ScaleType::kMultiples;
    const PanelLayout layout(format, 512 + 64);
    std::vector<int> uses(size(layout.panel_bytes));
    const auto use = [&uses](std::int64_t at, std::int64_t bytes) {
      for (std::int64_t i = at; i < at + bytes; ++i) ++uses.at(size(i));
    };
    for (std::int64_t g = 0; g < layout.groups; ++g) {
      use(layout.values(g), layout.group_bytes);
      if (g % kBlockGroups == 0) {
        EXPECT_EQ(layout.values(g) % 64, 0) << shown(format);
        use(layout.units(g), kUnitBytes);
        if (format.has_minimum) use(layout.minimum_units(g), kUnitBytes);
      }
      for (std::int64_t i = 0; i < format.scales_per_group(); ++i) {
        const std::int64_t row = g * format.scales_per_group() + i;
        use(layout.scales(row), kPanelOutputs);
        if (format.has_minimum) use(layout.minimums(row), kPanelOutputs);
      }
    }
    EXPECT_EQ(std::ranges::max(uses), 1) << shown(format);
    const auto unused = std::ranges::count(uses, 0);
    // Headers are whole cache lines, and the last has room for eight groups.
    EXPECT_LE(unused, 3 * 63 + 6 * format.scales_per_group() * kPanelOutputs * 2) << shown(format);
  }
}

}  // namespace
}  // namespace outrider
