// Every kernel against a plain f64 reference, and every instruction set against the same numbers.
// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/kernels/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "common/model/cpu/kernels/panel_writer.h"
#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/format/dtype.h"

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

struct Kind {
  const char* name;
  WeightType type;
  QuantFormat format = {};
  double tolerance = 3e-7;  // of a product, times the root of its length
};

// All that a matrix can be stored as; the last ones only by files of blocks.
constexpr Kind kKinds[] = {
    {"f32", WeightType::kF32},
    {"bf16", WeightType::kBf16},
    {"f16", WeightType::kF16},
    {"int8", WeightType::kQuantized, {.bits = 8}, 9e-3},
    {"int8 wide", WeightType::kQuantized, {.bits = 8, .wide_scales = true}, 9e-3},
    {"int4", WeightType::kQuantized, {.bits = 4, .has_minimum = true}, 0.12},
    {"int4 wide",
     WeightType::kQuantized,
     {.bits = 4, .wide_scales = true, .has_minimum = true},
     0.12},
    {"int8 halves",
     WeightType::kQuantized,
     {.bits = 8, .scale_group = 16, .wide_scales = true},
     9e-3},
    {"int8 minimum", WeightType::kQuantized, {.bits = 8, .has_minimum = true}, 1.5e-2},
    {"int4 zero 8", WeightType::kQuantized, {.bits = 4}, 0.13},
};

// 32 weights in a format that no quantiser of ours makes.
WeightGroup block_of(const float* weights, const QuantFormat& format) {
  WeightGroup group;
  const int step = format.scale_group;
  for (int begin = 0; begin < kQuantGroup; begin += step) {
    const auto [low, high] = std::minmax_element(weights + begin, weights + begin + step);
    const int top = format.bits == 4 ? 15 : format.has_minimum ? 127 : 255;
    const float largest = std::max(std::fabs(*low), std::fabs(*high));
    float scale = format.has_minimum ? (*high - *low) / static_cast<float>(top)
                                     : largest / static_cast<float>(top / 2);
    float minimum = format.has_minimum ? *low : 0.0f;
    if (!format.wide_scales) {
      scale = from_f16(to_f16(scale));
      minimum = from_f16(to_f16(minimum));
    }
    group.scales[begin / 16] = scale;
    group.minimum = minimum;
    const float factor = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (int i = begin; i < begin + step; ++i) {
      const float value =
          std::round((weights[i] - minimum) * factor) + static_cast<float>(format.zero());
      group.values[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, static_cast<float>(top)));
    }
  }
  return group;
}

bool is_ours(const QuantFormat& format) {
  return format.scale_group == 32 && format.has_minimum == (format.bits == 4);
}

// The panels of a matrix [outputs, inputs].
std::vector<std::byte> quantize(const Kernels& kernels, const WeightMatrix& matrix,
                                const std::vector<float>& weights) {
  std::vector<std::byte> panels(static_cast<std::size_t>(bytes_of(matrix)));
  const PanelWriter writer(matrix.format, matrix.inputs, panels.data());
  for (std::int64_t n = 0; n < matrix.outputs; ++n) {
    for (std::int64_t k = 0; k < matrix.inputs; k += kQuantGroup) {
      float padded[kQuantGroup] = {};
      std::copy_n(weights.begin() + n * matrix.inputs + k, std::min(kQuantGroup, matrix.inputs - k),
                  padded);
      WeightGroup group;
      if (is_ours(matrix.format)) {
        kernels.quantize_weights(padded, matrix.format, &group);
      } else {
        group = block_of(padded, matrix.format);
      }
      writer.store(n, k / kQuantGroup, group);
    }
  }
  return panels;
}

// Weights and activations of one product, of every kind.
class Product {
 public:
  Product(const Kernels& kernels, std::int64_t rows, std::int64_t outputs, std::int64_t inputs)
      : outputs_(outputs), inputs_(inputs), stride_(pad_to_lanes(inputs)), layout_(inputs) {
    f32_ = random_values(static_cast<std::size_t>(outputs * inputs), 1);
    for (float& w : f32_) w = std::bit_cast<float>(std::bit_cast<std::uint32_t>(w) & 0xffff0000);
    for (const float w : f32_) {
      bf16_.push_back(to_bf16(w));
      f16_.push_back(to_f16(w));
    }
    for (const Kind& kind : kKinds) {
      quantized_.push_back(kind.type == WeightType::kQuantized
                               ? quantize(kernels, empty_matrix(kind), f32_)
                               : std::vector<std::byte>());
    }
    const std::vector<float> x = random_values(static_cast<std::size_t>(rows * inputs), 2);
    x_.assign(static_cast<std::size_t>(rows * stride_), 0.0f);
    rows_.resize(static_cast<std::size_t>(rows * layout_.row_bytes));
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(x.begin() + r * inputs, inputs, x_.begin() + r * stride_);
      kernels.quantize_row(x_.data() + r * stride_, inputs, rows_.data() + r * layout_.row_bytes);
    }
  }

  // [rows, outputs], computed in parts [0, cut) and [cut, outputs), of rows [first, first + count).
  std::vector<float> run(const Kernels& kernels, const Kind& kind, std::int64_t first,
                         std::int64_t count, std::int64_t cut = 0) const {
    std::vector<float> y(static_cast<std::size_t>(count * outputs_), -1.0f);
    const MatmulOutput output{y.data(), outputs_, nullptr, false};
    kernels.matmul(matrix(kind), input(first, count), {cut, outputs_}, output);
    if (cut > 0) kernels.matmul(matrix(kind), input(first, count), {0, cut}, output);
    return y;
  }

  MatmulInput input(std::int64_t first, std::int64_t count) const {
    return {count, stride_, x_.data() + first * stride_, rows_.data() + first * layout_.row_bytes};
  }

  WeightMatrix matrix(const Kind& kind) const {
    WeightMatrix matrix = empty_matrix(kind);
    switch (kind.type) {
      case WeightType::kF32:
        matrix.data = f32_.data();
        break;
      case WeightType::kBf16:
        matrix.data = bf16_.data();
        break;
      case WeightType::kF16:
        matrix.data = f16_.data();
        break;
      case WeightType::kQuantized:
        matrix.data = quantized_[static_cast<std::size_t>(&kind - kKinds)].data();
        break;
    }
    return matrix;
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
  WeightMatrix empty_matrix(const Kind& kind) const {
    return {.type = kind.type, .format = kind.format, .outputs = outputs_, .inputs = inputs_};
  }

  std::int64_t outputs_, inputs_, stride_;
  QuantizedRowLayout layout_;
  std::vector<float> f32_;
  std::vector<std::uint16_t> bf16_, f16_;
  std::vector<std::vector<std::byte>> quantized_;  // by kind
  std::vector<float> x_;
  std::vector<std::byte> rows_;
};

class KernelsTest : public ::testing::TestWithParam<VectorTarget> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

TEST_P(KernelsTest, ProductsAgreeWithTheReferenceAtAllSizes) {
  for (const std::int64_t inputs : {1, 8, 16, 31, 64, 172, 512, 700, 1536}) {
    for (const std::int64_t outputs : {1, 3, 4, 10, 16, 37}) {
      const Product product(kernels(), 7, outputs, inputs);
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

TEST_P(KernelsTest, ARowOfAProductHasTheSameBitsInEveryTile) {
  constexpr std::int64_t kRows = 19;
  const std::int64_t outputs = 37;
  const Product product(kernels(), kRows, outputs, 300);
  for (const Kind& kind : kKinds) {
    std::vector<float> alone;
    for (std::int64_t row = 0; row < kRows; ++row) {
      const std::vector<float> y = product.run(kernels(), kind, row, 1);
      alone.insert(alone.end(), y.begin(), y.end());
    }
    for (std::int64_t count = 1; count <= kRows; ++count) {
      for (const std::int64_t cut : {0, 1, 2, 7, 16, 20}) {
        const std::vector<float> y = product.run(kernels(), kind, kRows - count, count, cut);
        ASSERT_EQ(0, std::memcmp(y.data(), alone.data() + (kRows - count) * outputs,
                                 y.size() * sizeof(float)))
            << count << " rows, " << kind.name;
      }
    }
  }
}

TEST_P(KernelsTest, HalfPrecisionWeightsGiveTheBitsOfTheirWidenedCopies) {
  const Product product(kernels(), 5, 9, 200);
  const std::vector<float> widened = product.run(kernels(), kKinds[0], 0, 5);
  EXPECT_EQ(widened, product.run(kernels(), kKinds[1], 0, 5));
}

TEST_P(KernelsTest, BiasAndEarlierValuesAreAdded) {
  const std::size_t outputs = 22;
  const Product product(kernels(), 3, outputs, 40);
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

TEST_P(KernelsTest, QuantisedGroupsOfExtremesNeitherOverflowNorVanish) {
  // The largest products: every activation at +-127, every weight at an end of its range.
  for (const Kind& kind : kKinds) {
    if (kind.type != WeightType::kQuantized) continue;
    const int top = kind.format.bits == 4 ? 15 : kind.format.has_minimum ? 127 : 255;
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
        group.minimum = 1.0f;
        for (int i = 0; i < 32; ++i) writer.store(i / 2, i % 2, group);
        const std::vector<float> x(64, sign * 127.0f);
        std::vector<std::byte> row(static_cast<std::size_t>(QuantizedRowLayout(64).row_bytes));
        kernels().quantize_row(x.data(), 64, row.data());
        std::vector<float> y(16);
        kernels().matmul(matrix, {1, 64, x.data(), row.data()}, {0, 16},
                         {y.data(), 16, nullptr, false});
        const float weight = 0.5f * static_cast<float>(value - kind.format.zero()) +
                             (kind.format.has_minimum ? 1.0f : 0.0f);
        for (const float each : y) EXPECT_EQ(each, sign * 127.0f * 64.0f * weight) << kind.name;
      }
    }
  }
}

TEST_P(KernelsTest, GroupsOfZerosQuantiseToZero) {
  const std::vector<float> zeros(40, 0.0f);
  const QuantizedRowLayout layout(40);
  std::vector<std::byte> row(static_cast<std::size_t>(layout.row_bytes), std::byte{7});
  kernels().quantize_row(zeros.data(), 40, row.data());
  for (std::int64_t i = 0; i < layout.no_offset + 4; ++i) {
    EXPECT_EQ(row[static_cast<std::size_t>(i)], std::byte{0}) << i;
  }
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

// Keys and values of one head of two in pages, and queries.
struct AttentionCase {
  std::int64_t head_dim, slots, queries;
  bool is_bf16 = false;
  std::int64_t stride = pad_to_lanes(head_dim);
  std::vector<float> keys = padded(slots, 11), values = padded(slots, 12);
  std::vector<float> query = padded(queries, 13);

  std::vector<float> padded(std::int64_t rows, std::uint32_t seed) const {
    const std::vector<float> source =
        random_values(static_cast<std::size_t>(rows * head_dim), seed);
    std::vector<float> out(static_cast<std::size_t>(rows * stride), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(source.begin() + r * head_dim, head_dim, out.begin() + r * stride);
    }
    if (is_bf16) {
      for (float& value : out) value = from_bf16(to_bf16(value));
    }
    return out;
  }

  // The second of two heads in pages of 64 slots.
  template <class T>
  std::vector<T> pages(const std::vector<float>& of) const {
    std::vector<T> out(static_cast<std::size_t>((slots + 63) / 64 * 128 * stride));
    for (std::int64_t i = 0; i < slots * stride; ++i) {
      const std::int64_t slot = i / stride;
      const std::int64_t at = (slot / 64 * 128 + 64 + slot % 64) * stride + i % stride;
      const float value = of[static_cast<std::size_t>(i)];
      if constexpr (std::is_same_v<T, float>) {
        out[static_cast<std::size_t>(at)] = value;
      } else {
        out[static_cast<std::size_t>(at)] = to_bf16(value);
      }
    }
    return out;
  }

  // Rows that see [begins[r], paths[r].size()), all computed together: [rows, queries, stride].
  std::vector<float> run(const Kernels& kernels,
                         const std::vector<std::vector<std::int32_t>>& paths,
                         const std::vector<std::int64_t>& begins) const {
    if (is_bf16)
      return run_on(kernels, pages<std::uint16_t>(keys), pages<std::uint16_t>(values), paths,
                    begins);
    return run_on(kernels, pages<float>(keys), pages<float>(values), paths, begins);
  }

  template <class T>
  std::vector<float> run_on(const Kernels& kernels, const std::vector<T>& key_pages,
                            const std::vector<T>& value_pages,
                            const std::vector<std::vector<std::int32_t>>& paths,
                            const std::vector<std::int64_t>& begins) const {
    const std::int64_t partial = stride + kPartialExtra;
    const auto count = static_cast<std::int64_t>(paths.size());
    std::size_t longest = 0;
    for (const auto& path : paths) longest = std::max(longest, path.size());
    const std::int64_t parts =
        (static_cast<std::int64_t>(longest) + kAttentionPart - 1) / kAttentionPart;
    std::vector<float> partials(static_cast<std::size_t>(count * parts * queries * partial));
    for (std::int64_t part = 0; part < parts; ++part) {
      std::vector<AttentionRow> rows;
      for (std::size_t r = 0; r < paths.size(); ++r) {
        const auto place = static_cast<std::int64_t>(r) * parts + part;
        rows.push_back({.queries = query.data(),
                        .partials = partials.data() + place * queries * partial,
                        .path = paths[r].data(),
                        .begin = std::max(begins[r], part * kAttentionPart),
                        .end = std::min(static_cast<std::int64_t>(paths[r].size()),
                                        (part + 1) * kAttentionPart)});
      }
      kernels.attention({.rows = rows.data(),
                         .num_rows = count,
                         .num_queries = queries,
                         .head_stride = stride,
                         .partial_stride = partial,
                         .keys = key_pages.data() + 64 * stride,
                         .values = value_pages.data() + 64 * stride,
                         .is_bf16 = is_bf16,
                         .page_stride = 128 * stride,
                         .scale = 0.25f});
    }
    std::vector<float> out(static_cast<std::size_t>(count * queries * stride));
    for (std::int64_t i = 0; i < count * queries; ++i) {
      kernels.combine_attention(
          partials.data() + (i / queries * parts * queries + i % queries) * partial, parts,
          queries * partial, stride, out.data() + i * stride);
    }
    return out;
  }

  double reference(const std::vector<std::int32_t>& path, std::int64_t begin, std::int64_t q,
                   std::int64_t element) const {
    double sum = 0;
    double weighted = 0;
    for (std::size_t t = static_cast<std::size_t>(begin); t < path.size(); ++t) {
      const auto at = static_cast<std::size_t>(path[t] * stride);
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

std::vector<std::int32_t> slots_in_order(std::int32_t count) {
  std::vector<std::int32_t> path(static_cast<std::size_t>(count));
  std::iota(path.begin(), path.end(), 0);
  return path;
}

TEST_P(KernelsTest, AttentionAgreesWithTheReference) {
  for (const bool is_bf16 : {false, true}) {
    for (const std::int64_t head_dim : {8, 64, 80}) {
      const AttentionCase sample{
          .head_dim = head_dim, .slots = 1100, .queries = 3, .is_bf16 = is_bf16};
      std::vector<std::int32_t> path = slots_in_order(1100);
      std::reverse(path.begin(), path.end());
      for (const std::size_t length : {1, 5, 64, 65, 200, 1024, 1100}) {
        const std::vector<std::int32_t> seen(path.begin(),
                                             path.begin() + static_cast<std::ptrdiff_t>(length));
        for (const std::int64_t begin : {std::int64_t{0}, static_cast<std::int64_t>(length) / 2}) {
          const std::vector<float> out = sample.run(kernels(), {seen}, {begin});
          for (std::int64_t i = 0; i < 3 * head_dim; ++i) {
            const std::int64_t q = i / head_dim;
            const std::int64_t element = i % head_dim;
            ASSERT_NEAR(out[static_cast<std::size_t>(q * sample.stride + element)],
                        sample.reference(seen, begin, q, element), 1e-6)
                << "head " << head_dim << " length " << length;
          }
        }
      }
    }
  }
}

TEST_P(KernelsTest, AttentionDoesNotDependOnWhereSlotsLie) {
  AttentionCase sample{.head_dim = 32, .slots = 150, .queries = 2};
  const std::vector<std::int32_t> path = slots_in_order(150);
  const std::vector<float> in_order = sample.run(kernels(), {path}, {10});
  std::vector<std::int32_t> shuffled = path;
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  AttentionCase moved = sample;
  for (std::size_t t = 0; t < path.size(); ++t) {
    const auto from = static_cast<std::ptrdiff_t>(t) * sample.stride;
    const auto to = static_cast<std::ptrdiff_t>(shuffled[t]) * sample.stride;
    std::copy_n(sample.keys.begin() + from, sample.stride, moved.keys.begin() + to);
    std::copy_n(sample.values.begin() + from, sample.stride, moved.values.begin() + to);
  }
  EXPECT_EQ(in_order, moved.run(kernels(), {shuffled}, {10}));
}

// Rows of a chain, of branches that part within a block, of windows, and of other lengths.
TEST_P(KernelsTest, ARowsAttentionHasTheSameBitsBesideOthers) {
  for (const std::int64_t queries : {1, 3, 8}) {
    const AttentionCase sample{.head_dim = 48, .slots = 1200, .queries = queries};
    std::vector<std::vector<std::int32_t>> paths;
    std::vector<std::int64_t> begins;
    const std::vector<std::int32_t> all = slots_in_order(1200);
    for (const std::int32_t length : {70, 71, 72, 128, 90, 1030, 1030, 3}) {
      paths.emplace_back(all.begin(), all.begin() + length);
      begins.push_back(length == 90 ? 37 : 0);
    }
    for (const std::int32_t branch : {1, 2, 3}) {
      paths.emplace_back(all.begin(), all.begin() + 100);
      for (std::size_t t = 80; t < 100; ++t) paths.back()[t] = 200 * branch + paths.back()[t];
      begins.push_back(0);
    }
    const std::vector<float> together = sample.run(kernels(), paths, begins);
    for (std::size_t r = 0; r < paths.size(); ++r) {
      const std::vector<float> alone = sample.run(kernels(), {paths[r]}, {begins[r]});
      EXPECT_EQ(0, std::memcmp(alone.data(), together.data() + r * alone.size(),
                               alone.size() * sizeof(float)))
          << "row " << r << ", " << queries << " queries";
    }
  }
}

// The numbers were the same on AVX2, AVX-512 and NEON when they were written down.
TEST_P(KernelsTest, BitsAreThoseOfEveryOtherCpu) {
  std::uint64_t h = 0xcbf29ce484222325;
  const Product product(kernels(), 7, 20, 700);
  for (const Kind& kind : kKinds) h = hash(h, product.run(kernels(), kind, 0, 7));
  EXPECT_EQ(h, 15558512341172244178u) << "matrix products";
  std::vector<float> x = random_values(608, 3);
  const std::vector<float> weight = random_values(608, 4);
  kernels().rms_norm(x.data(), weight.data(), 600, 1e-5f, x.data());
  kernels().silu_multiply(x.data(), weight.data(), 608);
  EXPECT_EQ(hash(0xcbf29ce484222325, x), 16757822816930267059u) << "norm and activation";
  for (const bool is_bf16 : {false, true}) {
    const AttentionCase sample{.head_dim = 80, .slots = 1150, .queries = 2, .is_bf16 = is_bf16};
    const auto out = sample.run(kernels(), {slots_in_order(1150)}, {20});
    EXPECT_EQ(hash(0xcbf29ce484222325, out), is_bf16 ? 17439825699008263053u : 5047061434571425191u)
        << "attention";
  }
}

INSTANTIATE_TEST_SUITE_P(EachTarget, KernelsTest, ::testing::ValuesIn(available_vector_targets()),
                         [](const auto& target) { return std::string(to_string(target.param)); });

}  // namespace
}  // namespace outrider
