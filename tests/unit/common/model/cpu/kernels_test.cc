// Every kernel against a plain f64 reference, and every instruction set against the same numbers.
// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace outrider {
namespace {

// Uniform in [-1, 1) with 16 random bits: the same on every machine, unlike std::distributions.
std::vector<float> random_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(static_cast<std::int32_t>(generator() >> 16) - 32768) / 32768.0f;
  }
  return values;
}

std::uint64_t hash(std::uint64_t h, const std::vector<float>& values) {
  for (const float value : values) {
    h = (h ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  }
  return h;
}

// Weights and activations of one product, in all four weight types.
class Product {
 public:
  Product(const Kernels& kernels, std::int64_t rows, std::int64_t outputs, std::int64_t inputs)
      : outputs_(outputs), inputs_(inputs), stride_(pad_to_lanes(inputs)) {
    const auto count = static_cast<std::size_t>(outputs * inputs);
    f32_ = random_values(count, 1);
    for (float& w : f32_) w = std::bit_cast<float>(std::bit_cast<std::uint32_t>(w) & 0xffff0000);
    for (const float w : f32_) {
      bf16_.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(w) >> 16));
      f16_.push_back(to_f16(w));
    }
    const std::vector<float> x = random_values(static_cast<std::size_t>(rows * inputs), 2);
    x_.assign(static_cast<std::size_t>(rows * stride_), 0.0f);
    const std::int64_t blocks = int8_blocks(inputs);
    quantized_.resize(static_cast<std::size_t>(rows * blocks));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(x.begin() + r * inputs, inputs, x_.begin() + r * stride_);
      kernels.quantize_row(x_.data() + r * stride_, inputs, quantized_.data() + r * blocks);
    }
    int8_.resize(static_cast<std::size_t>(outputs * blocks * kInt8Block));
    scales_.resize(static_cast<std::size_t>(outputs * blocks * kInt8BlockGroups));
    for (std::int64_t n = 0; n < outputs; ++n) {
      kernels.quantize_weights(f32_.data() + n * inputs, WeightType::kF32, inputs,
                               int8_.data() + n * blocks * kInt8Block,
                               scales_.data() + n * blocks * kInt8BlockGroups);
    }
  }

  // [rows, outputs], computed in parts [0, cut) and [cut, outputs), of rows [first, first + count).
  std::vector<float> run(const Kernels& kernels, WeightType type, std::int64_t first,
                         std::int64_t count, std::int64_t cut = 0) const {
    std::vector<float> y(static_cast<std::size_t>(count * outputs_), -1.0f);
    const MatmulInput input{count, stride_, x_.data() + first * stride_,
                            quantized_.data() + first * int8_blocks(inputs_)};
    const MatmulOutput output{y.data(), outputs_, nullptr, false};
    kernels.matmul(weights(type), input, {cut, outputs_}, output);
    if (cut > 0) kernels.matmul(weights(type), input, {0, cut}, output);
    return y;
  }

  WeightMatrix weights(WeightType type) const {
    switch (type) {
      case WeightType::kF32:
        return {type, f32_.data(), nullptr, outputs_, inputs_};
      case WeightType::kBf16:
        return {type, bf16_.data(), nullptr, outputs_, inputs_};
      case WeightType::kF16:
        return {type, f16_.data(), nullptr, outputs_, inputs_};
      case WeightType::kInt8:
        break;
    }
    return {WeightType::kInt8, int8_.data(), scales_.data(), outputs_, inputs_};
  }

  double reference(std::int64_t row, std::int64_t output) const {
    double sum = 0;
    for (std::int64_t k = 0; k < inputs_; ++k) {
      sum += static_cast<double>(f32_[static_cast<std::size_t>(output * inputs_ + k)]) *
             x_[static_cast<std::size_t>(row * stride_ + k)];
    }
    return sum;
  }

 private:
  // Of a bf16 value in (-1, 1) with at most 16 bits: exact unless subnormal in f16, then cut off.
  static std::uint16_t to_f16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 31 << 15;
    const std::int32_t exponent = static_cast<std::int32_t>(bits >> 23 & 255) - 127 + 15;
    if (exponent <= 0) return static_cast<std::uint16_t>(sign);
    return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(exponent) << 10 |
                                      (bits >> 13 & 1023));
  }

  std::int64_t outputs_, inputs_, stride_;
  std::vector<float> f32_;
  std::vector<std::uint16_t> bf16_, f16_;
  std::vector<std::int8_t> int8_;
  std::vector<std::uint16_t> scales_;
  std::vector<float> x_;
  std::vector<Int8Block> quantized_;
};

constexpr WeightType kAllTypes[] = {WeightType::kF32, WeightType::kBf16, WeightType::kF16,
                                    WeightType::kInt8};

class KernelsTest : public ::testing::TestWithParam<VectorTarget> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

TEST_P(KernelsTest, ProductsAgreeWithTheReferenceAtAllSizes) {
  for (const std::int64_t inputs : {1, 8, 16, 31, 64, 172, 512, 700, 1536}) {
    for (const std::int64_t outputs : {1, 3, 4, 10}) {
      const Product product(kernels(), 7, outputs, inputs);
      const double size = std::sqrt(static_cast<double>(inputs));
      for (const WeightType type : kAllTypes) {
        const double tolerance = (type == WeightType::kInt8 ? 6e-3 : 3e-7) * size + 3e-6;
        const std::vector<float> y = product.run(kernels(), type, 0, 7);
        for (std::int64_t i = 0; i < 7 * outputs; ++i) {
          ASSERT_NEAR(y[static_cast<std::size_t>(i)], product.reference(i / outputs, i % outputs),
                      tolerance)
              << "inputs " << inputs << " outputs " << outputs << " type "
              << static_cast<int>(type);
        }
      }
    }
  }
}

TEST_P(KernelsTest, ARowOfAProductHasTheSameBitsInEveryTile) {
  const std::int64_t outputs = 21;
  const Product product(kernels(), 16, outputs, 300);
  for (const WeightType type : kAllTypes) {
    std::vector<float> alone;
    for (std::int64_t row = 0; row < 16; ++row) {
      const std::vector<float> y = product.run(kernels(), type, row, 1);
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (std::int64_t count = 1; count <= 16; ++count) {
      for (const std::int64_t cut : {0, 1, 2, 7}) {
        const std::vector<float> y = product.run(kernels(), type, 16 - count, count, cut);
        ASSERT_EQ(0, std::memcmp(y.data(), alone.data() + (16 - count) * outputs,
                                 y.size() * sizeof(float)))
            << count << " rows, type " << static_cast<int>(type);
      }
    }
  }
}

TEST_P(KernelsTest, HalfPrecisionWeightsGiveTheBitsOfTheirWidenedCopies) {
  const Product product(kernels(), 5, 9, 200);
  const std::vector<float> widened = product.run(kernels(), WeightType::kF32, 0, 5);
  EXPECT_EQ(widened, product.run(kernels(), WeightType::kBf16, 0, 5));
}

TEST_P(KernelsTest, BiasAndEarlierValuesAreAdded) {
  const Product product(kernels(), 3, 6, 40);
  const std::vector<float> bias = random_values(6, 5);
  const std::vector<float> before = random_values(18, 6);
  const std::vector<float> dot = product.run(kernels(), WeightType::kF32, 0, 3);
  std::vector<float> x = random_values(3 * 40, 2);
  std::vector<float> padded(3 * 48, 0.0f);
  for (std::ptrdiff_t r = 0; r < 3; ++r) {
    std::copy_n(x.begin() + r * 40, 40, padded.begin() + r * 48);
  }
  std::vector<float> y = before;
  kernels().matmul(product.weights(WeightType::kF32), {3, 48, padded.data(), nullptr}, {0, 6},
                   {y.data(), 6, bias.data(), true});
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(y[i], before[i] + (dot[i] + bias[i % 6]));
  }
}

TEST_P(KernelsTest, QuantisedWeightsStayWithinHalfAStep) {
  const std::int64_t inputs = 650;
  const std::vector<float> row = random_values(static_cast<std::size_t>(inputs), 9);
  const std::int64_t blocks = int8_blocks(inputs);
  std::vector<std::int8_t> values(static_cast<std::size_t>(blocks * kInt8Block));
  std::vector<std::uint16_t> scales(static_cast<std::size_t>(blocks * kInt8BlockGroups));
  kernels().quantize_weights(row.data(), WeightType::kF32, inputs, values.data(), scales.data());
  for (std::int64_t k = 0; k < inputs; ++k) {
    const std::int64_t group = k / 32;
    const std::int64_t at = k / 512 * 512 + k % 32 / 4 * 64 + group % 16 * 4 + k % 4;
    const auto scale = std::bit_cast<float>(
        static_cast<std::uint32_t>(scales[static_cast<std::size_t>(group)]) << 16);
    const int value = values[static_cast<std::size_t>(at)];
    EXPECT_LE(std::abs(value), 127);
    EXPECT_NEAR(static_cast<float>(value) * scale, row[static_cast<std::size_t>(k)], scale * 0.501);
  }
}

TEST_P(KernelsTest, QuantisedGroupsOfExtremesNeitherOverflowNorVanish) {
  // The largest products: every weight and activation at +-127.
  for (const float sign : {1.0f, -1.0f}) {
    const std::vector<float> w(512, sign * 2.0f);
    const std::vector<float> x(512, 3.0f);
    std::vector<std::int8_t> values(512);
    std::vector<std::uint16_t> scales(16);
    Int8Block block;
    kernels().quantize_weights(w.data(), WeightType::kF32, 512, values.data(), scales.data());
    kernels().quantize_row(x.data(), 512, &block);
    float y = 0;
    kernels().matmul({WeightType::kInt8, values.data(), scales.data(), 1, 512},
                     {1, 512, x.data(), &block}, {0, 1}, {&y, 1, nullptr, false});
    EXPECT_NEAR(y, sign * 512 * 6.0f, 512 * 6.0f * 0.01f);
  }
}

TEST_P(KernelsTest, GroupsOfZerosQuantiseToZero) {
  const std::vector<float> zeros(40, 0.0f);
  Int8Block block;
  kernels().quantize_row(zeros.data(), 40, &block);
  for (const std::int8_t value : block.values) EXPECT_EQ(value, 0);
  for (const float scale : block.scales) EXPECT_EQ(scale, 0.0f);
}

TEST_P(KernelsTest, RmsNormAgreesWithTheReference) {
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

TEST_P(KernelsTest, SiluMultiplyAgreesWithTheReference) {
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

// Keys and values of `slots` slots, two heads, and queries.
struct AttentionCase {
  std::int64_t head_dim, slots, queries;
  std::int64_t stride = pad_to_lanes(head_dim);
  std::vector<float> keys = padded(slots * 2, 11), values = padded(slots * 2, 12);
  std::vector<float> query = padded(queries, 13);

  std::vector<float> padded(std::int64_t rows, std::uint32_t seed) const {
    const std::vector<float> source =
        random_values(static_cast<std::size_t>(rows * head_dim), seed);
    std::vector<float> out(static_cast<std::size_t>(rows * stride), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(source.begin() + r * head_dim, head_dim, out.begin() + r * stride);
    }
    return out;
  }

  std::vector<float> run(const Kernels& kernels, const std::vector<std::int32_t>& path,
                         std::int64_t begin) const {
    std::vector<float> out(static_cast<std::size_t>(queries * stride));
    kernels.attention({.queries = query.data(),
                       .out = out.data(),
                       .num_queries = queries,
                       .head_stride = stride,
                       .keys = keys.data() + stride,
                       .values = values.data() + stride,
                       .slot_stride = 2 * stride,
                       .path = path.data(),
                       .begin = begin,
                       .end = static_cast<std::int64_t>(path.size()),
                       .scale = 0.25f});
    return out;
  }

  double reference(const std::vector<std::int32_t>& path, std::int64_t begin, std::int64_t q,
                   std::int64_t element) const {
    double sum = 0;
    double weighted = 0;
    for (std::size_t t = static_cast<std::size_t>(begin); t < path.size(); ++t) {
      const auto at = static_cast<std::size_t>((path[t] * 2 + 1) * stride);
      double dot = 0;
      for (std::int64_t k = 0; k < head_dim; ++k) {
        dot += static_cast<double>(keys[at + static_cast<std::size_t>(k)]) *
               query[static_cast<std::size_t>(q * stride + k)];
      }
      const double weight = std::exp(0.25 * dot);
      sum += weight;
      weighted += weight * values[at + static_cast<std::size_t>(element)];
    }
    return weighted / sum;
  }
};

TEST_P(KernelsTest, AttentionAgreesWithTheReference) {
  for (const std::int64_t head_dim : {8, 64, 80}) {
    const AttentionCase sample{.head_dim = head_dim, .slots = 200, .queries = 3};
    std::vector<std::int32_t> path(200);
    std::iota(path.rbegin(), path.rend(), 0);
    for (const std::size_t length : {1, 5, 64, 65, 200}) {
      const std::vector<std::int32_t> seen(path.begin(),
                                           path.begin() + static_cast<std::ptrdiff_t>(length));
      for (const std::int64_t begin : {std::int64_t{0}, static_cast<std::int64_t>(length) / 2}) {
        const std::vector<float> out = sample.run(kernels(), seen, begin);
        for (std::int64_t i = 0; i < 3 * head_dim; ++i) {
          const std::int64_t q = i / head_dim;
          const std::int64_t element = i % head_dim;
          ASSERT_NEAR(out[static_cast<std::size_t>(q * sample.stride + element)],
                      sample.reference(seen, begin, q, element), 1e-6);
        }
      }
    }
  }
}

TEST_P(KernelsTest, AttentionDoesNotDependOnWhereSlotsLie) {
  AttentionCase sample{.head_dim = 32, .slots = 150, .queries = 2};
  std::vector<std::int32_t> path(150);
  std::iota(path.begin(), path.end(), 0);
  const std::vector<float> in_order = sample.run(kernels(), path, 10);
  std::vector<std::int32_t> shuffled = path;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  AttentionCase moved = sample;
  const std::ptrdiff_t width = 2 * sample.stride;
  for (std::size_t t = 0; t < path.size(); ++t) {
    const auto from = static_cast<std::ptrdiff_t>(t) * width;
    const auto to = static_cast<std::ptrdiff_t>(shuffled[t]) * width;
    std::copy_n(sample.keys.begin() + from, width, moved.keys.begin() + to);
    std::copy_n(sample.values.begin() + from, width, moved.values.begin() + to);
  }
  EXPECT_EQ(in_order, moved.run(kernels(), shuffled, 10));
}

// The numbers were the same on AVX2, AVX-512 and NEON when they were written down.
TEST_P(KernelsTest, BitsAreThoseOfEveryOtherCpu) {
  std::uint64_t h = 0xcbf29ce484222325;
  const Product product(kernels(), 7, 10, 700);
  for (const WeightType type : kAllTypes) h = hash(h, product.run(kernels(), type, 0, 7));
  EXPECT_EQ(h, 18274733203034999804u) << "matrix products";
  std::vector<float> x = random_values(608, 3);
  const std::vector<float> weight = random_values(608, 4);
  kernels().rms_norm(x.data(), weight.data(), 600, 1e-5f, x.data());
  kernels().silu_multiply(x.data(), weight.data(), 608);
  EXPECT_EQ(hash(0xcbf29ce484222325, x), 16757822816930267059u) << "norm and activation";
  const AttentionCase sample{.head_dim = 80, .slots = 150, .queries = 2};
  std::vector<std::int32_t> path(150);
  std::iota(path.begin(), path.end(), 0);
  EXPECT_EQ(hash(0xcbf29ce484222325, sample.run(kernels(), path, 20)), 13950756230353719904u)
      << "attention";
}

INSTANTIATE_TEST_SUITE_P(EachTarget, KernelsTest, ::testing::ValuesIn(available_vector_targets()),
                         [](const auto& target) { return std::string(to_string(target.param)); });

}  // namespace
}  // namespace outrider
