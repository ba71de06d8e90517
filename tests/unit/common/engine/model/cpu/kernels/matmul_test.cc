// Matrix products of every kind against a plain f64 reference.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"
#include "tests/unit/common/engine/model/cpu/kernels/matmul_sample.h"

namespace outrider {
namespace {

using MatmulTest = EachTargetTest;

TEST_P(MatmulTest, ProductsAgreeWithTheReferenceAtAllSizes) {
  for (const std::int64_t inputs : {1, 8, 16, 31, 64, 172, 512, 700, 1536}) {
    for (const std::int64_t outputs : {1, 3, 4, 10, 16, 37}) {
      const MatmulSample product(kernels(), 7, outputs, inputs);
      const double size = std::sqrt(static_cast<double>(inputs));
      for (const Kind& kind : kKinds) {
        const std::vector<float> y = product.run(kernels(), kind, 0, 7);
        for (std::int64_t i = 0; i < 7 * outputs; ++i) {
          ASSERT_NEAR(y[static_cast<std::size_t>(i)], product.reference(i / outputs, i % outputs),
                      kind.tolerance * size + 3e-6)
              << "inputs " << inputs << " outputs " << outputs << " " << kind.name;
        }
      }
    }
  }
}

// More rows than any kernel's threshold for widened weights, and more inputs than its longest
// block.
constexpr std::int64_t kManyRows = 131, kManyInputs = 3100;

TEST_P(MatmulTest, ARowOfAProductHasTheSameBitsInEveryTile) {
  const std::int64_t outputs = 37;
  for (const std::int64_t inputs : {std::int64_t{300}, kManyInputs}) {
    const MatmulSample product(kernels(), kManyRows, outputs, inputs);
    for (const Kind& kind : kKinds) {
      std::vector<float> alone;
      for (std::int64_t row = 0; row < kManyRows; ++row) {
        const std::vector<float> y = product.run(kernels(), kind, row, 1);
        alone.insert(alone.end(), y.begin(), y.end());
      }
      for (std::int64_t count = 1; count <= kManyRows; count += count == 33 ? kManyRows - 33 : 1) {
        for (const std::int64_t cut : {0, 1, 2, 7, 16, 20}) {
          if (inputs == kManyInputs && cut != 7) continue;
          const std::vector<float> y = product.run(kernels(), kind, kManyRows - count, count, cut);
          ASSERT_EQ(0, std::memcmp(y.data(), alone.data() + (kManyRows - count) * outputs,
                                   y.size() * sizeof(float)))
              << count << " rows of " << inputs << ", " << kind.name;
        }
      }
    }
  }
}

TEST_P(MatmulTest, ANumberedInputIsLaidOutOnceAndAnotherAnew) {
  const std::size_t outputs = 21;
  const MatmulSample first(kernels(), 9, outputs, 100), second(kernels(), 9, outputs, 600);
  for (const Kind& kind : kKinds) {
    const std::vector<float> expected[] = {first.run(kernels(), kind, 0, 9),
                                           second.run(kernels(), kind, 0, 9)};
    for (const std::uint64_t number : {7u, 7u, 8u, 8u, 0u, 8u}) {
      const MatmulSample& product = number == 8 ? second : first;
      MatmulInput x = product.input(0, 9);
      x.number = number;
      std::vector<float> y(9 * outputs);
      kernels().matmul(product.matrix(kind), x, {0, outputs}, {y.data(), outputs, nullptr, false});
      EXPECT_EQ(y, expected[number == 8 ? 1 : 0]) << number << " " << kind.name;
    }
  }
}

TEST_P(MatmulTest, HalfPrecisionWeightsGiveTheBitsOfTheirWidenedCopies) {
  const MatmulSample product(kernels(), 5, 9, 200);
  const std::vector<float> widened = product.run(kernels(), kKinds[0], 0, 5);
  EXPECT_EQ(widened, product.run(kernels(), kKinds[1], 0, 5));
}

TEST_P(MatmulTest, BiasAndEarlierValuesAreAdded) {
  const std::size_t outputs = 22;
  const MatmulSample product(kernels(), 3, outputs, 40);
  const std::vector<float> bias = random_values(outputs, 5);
  const std::vector<float> before = random_values(3 * outputs, 6);
  for (const Kind* kind : {&kKinds[0], &kKinds[3]}) {
    const std::vector<float> dot = product.run(kernels(), *kind, 0, 3);
    std::vector<float> y = before;
    kernels().matmul(product.matrix(*kind), product.input(0, 3), {0, outputs},
                     {y.data(), outputs, bias.data(), true});
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i], before[i] + (dot[i] + bias[i % outputs]));
    }
  }
}

TEST_P(MatmulTest, QuantisedGroupsOfExtremesNeitherOverflowNorVanish) {
  // The largest products: every activation at +-127, every weight at an end of its range.
  for (const Kind& kind : kKinds) {
    if (kind.type != WeightType::kQuantized) continue;
    const QuantFormat& format = kind.format;
    const int top = format.bits == 8 && format.has_minimum ? 127 : (1 << format.bits) - 1;
    for (const int value : {0, top}) {
      for (const float sign : {1.0f, -1.0f}) {
        WeightMatrix matrix{.type = kind.type, .format = kind.format, .outputs = 16, .inputs = 64};
        std::vector<std::byte> panel(static_cast<std::size_t>(bytes_of(matrix)));
        matrix.data = panel.data();
        const PanelWriter writer(kind.format, 64, panel.data());
        WeightGroup group;
        std::fill(std::begin(group.values), std::end(group.values),
                  static_cast<std::uint8_t>(value));
        group.scales[0] = group.scales[1] = 0.5f;
        group.minimum = group.second_minimum = 1.0f;
        group.multiples = {
            .unit = 0.125f, .minimum_unit = -1.0f, .scales = {4, 4}, .minimums = {-1, -1}};
        for (int i = 0; i < 32; ++i) writer.store(i / 2, i % 2, group);
        const std::vector<float> x(64, sign * 127.0f);
        std::vector<std::byte> row(static_cast<std::size_t>(quantized_row_bytes(64)));
        kernels().quantize_row(x.data(), 64, row.data());
        std::vector<float> y(16);
        kernels().matmul(matrix, {1, 64, x.data(), row.data()}, {0, 16},
                         {y.data(), 16, nullptr, false});
        const int meant = kind.format.has_table ? kTableValues[value] : value;
        const float weight = 0.5f * static_cast<float>(meant - kind.format.zero()) +
                             (kind.format.has_minimum ? 1.0f : 0.0f);
        for (const float each : y) EXPECT_EQ(each, sign * 127.0f * 64.0f * weight) << kind.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachTarget, MatmulTest, ::testing::ValuesIn(available_vector_targets()),
                         target_name);

}  // namespace
}  // namespace outrider
