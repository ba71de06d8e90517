// Quantised weights: the content of panels, and the error of quantisation.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {
namespace {

// Uniform in [-1, 1) with 16 random bits.
std::vector<float> random_weights(std::size_t count) {
  std::mt19937 generator(5);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<std::int32_t>(generator() >> 16) - 32768) / 32768.0f;
  }
  return values;
}

TEST(PanelLayout, FillsUpToWholeGroupsAndPanelsOnly) {
  const WeightMatrix matrix{.type = WeightType::kQuantized, .outputs = 48, .inputs = 576};
  EXPECT_EQ(bytes_of(matrix), 48 * (576 + 576 / 32 * 2));
  EXPECT_EQ(padding_of(matrix), 0);
  const WeightMatrix odd{.type = WeightType::kQuantized, .outputs = 17, .inputs = 33};
  EXPECT_EQ(bytes_of(odd), 32 * (64 + 2 * 2));
  EXPECT_EQ(padding_of(odd), 32 * 68 - 17 * (33 + 2 * 2));
  const WeightMatrix halves{.type = WeightType::kQuantized,
                            .format = {.bits = 8, .scale_group = 16, .scales = ScaleType::kF32},
                            .outputs = 16,
                            .inputs = 64};
  EXPECT_EQ(bytes_of(halves), 16 * (64 + 4 * 4));
  const WeightMatrix int4{.type = WeightType::kQuantized,
                          .format = {.bits = 4, .has_minimum = true},
                          .outputs = 16,
                          .inputs = 64};
  EXPECT_EQ(bytes_of(int4), 16 * (32 + 2 * 2 + 2 * 2));
}

TEST(PanelWriter, KeepsEveryValueScaleAndMinimum) {
  for (const QuantFormat& format :
       {QuantFormat{.bits = 8}, QuantFormat{.bits = 4},
        QuantFormat{.bits = 8, .scale_group = 16, .scales = ScaleType::kF32},
        QuantFormat{.bits = 4, .scales = ScaleType::kF32, .has_minimum = true}}) {
    const WeightMatrix matrix{
        .type = WeightType::kQuantized, .format = format, .outputs = 18, .inputs = 96};
    std::vector<std::byte> panels(static_cast<std::size_t>(bytes_of(matrix)));
    const PanelWriter writer(format, 96, panels.data());
    std::mt19937 generator(3);
    std::vector<WeightGroup> groups(18 * 3);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      for (std::uint8_t& value : groups[i].values) {
        value = static_cast<std::uint8_t>(generator() % (format.bits == 4 ? 16 : 256));
      }
      groups[i].scales[0] = 0.25f + static_cast<float>(i);
      groups[i].scales[1] = 0.5f + static_cast<float>(i);
      groups[i].minimum = -3.0f - static_cast<float>(i);
      writer.store(static_cast<std::int64_t>(i / 3), static_cast<std::int64_t>(i % 3), groups[i]);
    }
    for (std::size_t n = 0; n < 18; ++n) {
      std::vector<float> row(96);
      read_panel_row(format, 96, panels.data(), static_cast<std::int64_t>(n), row.data());
      for (std::size_t k = 0; k < 96; ++k) {
        const WeightGroup& group = groups[n * 3 + k / 32];
        const float scale = group.scales[format.scale_group == 16 ? k % 32 / 16 : 0];
        const float value = static_cast<float>(group.values[k % 32] - format.zero());
        EXPECT_EQ(row[k], scale * value + (format.has_minimum ? group.minimum : 0.0f));
      }
    }
  }
}

class QuantizeWeights : public ::testing::TestWithParam<VectorTarget> {
 protected:
  // The root of the mean squared error over many groups, each scaled by `size`.
  double error(const QuantFormat& format, float size) {
    std::vector<float> weights = random_weights(32 * 64);
    double squares = 0;
    for (std::size_t at = 0; at < weights.size(); at += 32) {
      for (std::size_t i = 0; i < 32; ++i) weights[at + i] *= size;
      WeightGroup group;
      kernels_for(GetParam()).quantize_weights(weights.data() + at, format, &group);
      for (std::size_t i = 0; i < 32; ++i) {
        const double made = group.scales[0] * static_cast<double>(group.values[i] - format.zero()) +
                            (format.has_minimum ? group.minimum : 0.0f);
        const double off = made - weights[at + i];
        if (format.bits == 8) {
          EXPECT_LE(std::abs(off), 0.501 * group.scales[0]);
          EXPECT_GE(group.values[i], 1);
        } else {
          EXPECT_LE(group.values[i], 15);
        }
        squares += off * off;
      }
    }
    return std::sqrt(squares / static_cast<double>(weights.size())) / size;
  }
};

TEST_P(QuantizeWeights, StaysNearWhateverTheSize) {
  // A uniform number that is rounded to a step has a root mean square error of 0.29 steps.
  for (const float size : {1e-8f, 1.0f, 1e8f}) {
    EXPECT_LT(error({.bits = 8, .scales = ScaleType::kF32}, size), 0.30 / 127);
    EXPECT_LT(error({.bits = 4, .scales = ScaleType::kF32, .has_minimum = true}, size),
              0.30 * 2 / 15);
  }
  EXPECT_LT(error({.bits = 8}, 0.03f), 0.30 / 127);
  EXPECT_LT(error({.bits = 4, .has_minimum = true}, 0.03f), 0.30 * 2 / 15);
}

TEST_P(QuantizeWeights, KeepsWhatHasOneValueOnly) {
  for (const float value : {0.0f, 0.5f, -2.0f}) {
    const std::vector<float> same(32, value);
    for (const QuantFormat& format :
         {QuantFormat{.bits = 8, .scales = ScaleType::kF32},
          QuantFormat{.bits = 4, .scales = ScaleType::kF32, .has_minimum = true}}) {
      WeightGroup group;
      kernels_for(GetParam()).quantize_weights(same.data(), format, &group);
      const float made = group.scales[0] * static_cast<float>(group.values[5] - format.zero()) +
                         (format.has_minimum ? group.minimum : 0.0f);
      EXPECT_NEAR(made, value, std::abs(value) * 1e-6);
    }
  }
}

// The expected numbers were equal on AVX2, AVX-512 and NEON when they were recorded.
TEST_P(QuantizeWeights, BitsAreThoseOfEveryOtherCpu) {
  const std::vector<float> weights = random_weights(32 * 64);
  std::uint64_t h = 0xcbf29ce484222325;
  for (const QuantFormat& format :
       {QuantFormat{.bits = 8}, QuantFormat{.bits = 4, .has_minimum = true}}) {
    for (std::size_t at = 0; at < weights.size(); at += 32) {
      WeightGroup group;
      kernels_for(GetParam()).quantize_weights(weights.data() + at, format, &group);
      for (const std::uint8_t value : group.values) h = (h ^ value) * 0x100000001b3;
      h = (h ^ to_f16(group.scales[0])) * 0x100000001b3;
      h = (h ^ to_f16(group.minimum)) * 0x100000001b3;
    }
  }
  EXPECT_EQ(h, 1329522756758157580u);
}

INSTANTIATE_TEST_SUITE_P(EachTarget, QuantizeWeights,
                         ::testing::ValuesIn(available_vector_targets()),
                         [](const auto& target) { return std::string(to_string(target.param)); });

}  // namespace
}  // namespace outrider
