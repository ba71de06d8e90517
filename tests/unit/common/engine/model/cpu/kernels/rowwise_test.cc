// Norm, activation and quantisation of rows against a plain f64 reference.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"

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

TEST_P(RowwiseTest, LayerNormAgreesWithTheReference) {
  for (const std::int64_t count : {1, 16, 100, 2048}) {
    std::vector<float> x = random_values(static_cast<std::size_t>(count), 3);
    for (float& value : x) value = value * 3 + 2;
    const std::vector<float> weight = random_values(static_cast<std::size_t>(count), 4);
    const std::vector<float> bias = random_values(static_cast<std::size_t>(count), 5);
    std::vector<float> y(x.size());
    kernels().layer_norm(x.data(), {weight.data(), bias.data()}, count, 1e-5f, y.data());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(count);
    double squares = 0;
    for (const float value : x) squares += (value - mean) * (value - mean);
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i], (x[i] - mean) * factor * weight[i] + bias[i], 2e-6) << count;
    }
    std::vector<float> in_place = x;
    kernels().layer_norm(in_place.data(), {weight.data(), bias.data()}, count, 1e-5f,
                         in_place.data());
    EXPECT_EQ(in_place, y);
  }
}

TEST_P(RowwiseTest, ActivationsAgreeWithTheReferenceWithAndWithoutAGate) {
  const auto gelu = [](double x) { return x * (1 + std::erf(x / std::sqrt(2.0))) / 2; };
  const auto gelu_tanh = [](double x) {
    return x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
  };
  const auto relu = [](double x) { return std::max(x, 0.0); };
  const std::pair<ActivationFunction, std::function<double(double)>> functions[] = {
      {kernels().gelu_multiply, gelu},
      {kernels().gelu_tanh_multiply, gelu_tanh},
      {kernels().relu_multiply, relu}};
  std::vector<float> before = random_values(960, 3);
  for (float& value : before) value *= 12.0f;
  before[0] = 0.0f;
  const std::vector<float> up = random_values(960, 4);
  for (const auto& [function, expected] : functions) {
    std::vector<float> gated = before, alone = before;
    function(gated.data(), up.data(), 960);
    function(alone.data(), nullptr, 960);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const double y = expected(before[i]);
      EXPECT_NEAR(alone[i], y, 4e-7 * std::max(1.0, std::abs(double{before[i]}))) << before[i];
      EXPECT_EQ(gated[i], alone[i] * up[i]);
    }
  }
}

TEST_P(RowwiseTest, ASoftCapBendsAnyNumberOfElements) {
  for (const std::int64_t count : {1, 7, 16, 33}) {
    std::vector<float> x = random_values(static_cast<std::size_t>(count), 3);
    for (float& value : x) value *= 40.0f;
    const std::vector<float> before = x;
    kernels().soft_cap(x.data(), count, 5.0f);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(x[i], 5 * std::tanh(before[i] / 5.0), 2e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachTarget, RowwiseTest, ::testing::ValuesIn(available_vector_targets()),
                         target_name);

}  // namespace
}  // namespace outrider
