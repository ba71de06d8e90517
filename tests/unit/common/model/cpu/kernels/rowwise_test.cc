// Norm, activation and quantisation of rows against a plain f64 reference.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/common/model/cpu/kernels/kernel_samples.h"

namespace outrider {
namespace {

using RowwiseTest = EachTargetTest;

TEST_P(RowwiseTest, GroupsOfZerosQuantiseToZero) {
  const std::vector<float> zeros(40, 0.0f);
  std::vector<std::byte> row(static_cast<std::size_t>(quantized_row_bytes(40)), std::byte{7});
  kernels().quantize_row(zeros.data(), 40, row.data());
  EXPECT_EQ(row, std::vector<std::byte>(row.size()));
}

TEST_P(RowwiseTest, RmsNormAgreesWithTheReference) {
  for (const std::int64_t count : {1, 16, 100, 2048}) {
    const std::vector<float> x = random_values(static_cast<std::size_t>(count), 3);
    const std::vector<float> weight = random_values(static_cast<std::size_t>(count), 4);
    std::vector<float> y(x.size());
    kernels().rms_norm(x.data(), weight.data(), count, 1e-5f, y.data());
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * value;
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], x[i] * factor * weight[i], 1e-6);
    }
  }
}

TEST_P(RowwiseTest, SiluMultiplyAgreesWithTheReference) {
  std::vector<float> gate = random_values(64, 3);
  for (float& value : gate) value *= 100.0f;
  const std::vector<float> before = gate;
  const std::vector<float> up = random_values(64, 4);
  kernels().silu_multiply(gate.data(), up.data(), 64);
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double x = before[i];
    EXPECT_NEAR(gate[i], x / (1.0 + std::exp(-x)) * up[i], 1e-5 * std::max(1.0, std::abs(x)));
  }
}

INSTANTIATE_TEST_SUITE_P(EachTarget, RowwiseTest, ::testing::ValuesIn(available_vector_targets()),
                         target_name);

}  // namespace
}  // namespace outrider
