// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/engine/model/cpu/kernels/matmul_sample.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/format/dtype.h"
#include "tests/unit/common/engine/model/cpu/kernels/kernel_samples.h"

namespace outrider {
namespace {

// The index of the table's value next to `value`, of which 0 is 128.
std::uint8_t nearest_of_table(float value) {
  const auto distance = [value](std::uint8_t of_table) {
    return std::fabs(static_cast<float>(of_table) - 128.0f - value);
  };
  const auto* const nearest = std::ranges::min_element(kTableValues, {}, distance);
  return static_cast<std::uint8_t>(nearest - std::begin(kTableValues));
}

// The largest value of a format, or of its table.
int top_of(const QuantFormat& format) {
  if (format.has_table) return 255;
  return format.bits == 8 && format.has_minimum ? 127 : (1 << format.bits) - 1;
}

// Makes a scale and a minimum of weights in [-1, 1) multiples of units: the scale not smaller, the
// minimum not larger.
void make_multiples(int half, float largest_scale, float& scale, float& minimum,
                    Multiples& multiples) {
  multiples.unit = from_f16(to_f16(largest_scale * 1.01f / 127.0f));
  multiples.minimum_unit = from_f16(to_f16(-1.01f / 127.0f));
  multiples.scales[half] = static_cast<std::int8_t>(std::ceil(scale / multiples.unit));
  multiples.minimums[half] = static_cast<std::int8_t>(std::ceil(minimum / multiples.minimum_unit));
  scale = multiples.unit * static_cast<float>(multiples.scales[half]);
  minimum = multiples.minimum_unit * static_cast<float>(multiples.minimums[half]);
}

// 32 weights in a format that no quantiser of ours makes.
WeightGroup block_of(const float* weights, const QuantFormat& format) {
  WeightGroup group;
  const int step = format.scale_group;
  for (int begin = 0; begin < kQuantGroup; begin += step) {
    const auto [low, high] = std::minmax_element(weights + begin, weights + begin + step);
    const int top = top_of(format);
    const float largest = std::max(std::fabs(*low), std::fabs(*high));
    float scale = format.has_minimum ? (*high - *low) / static_cast<float>(top)
                                     : largest / static_cast<float>(top / 2);
    float minimum = format.has_minimum ? *low : 0.0f;
    if (format.scales == ScaleType::kMultiples) {
      // The minimum may become a step smaller.
      if (format.has_minimum) scale += 0.01f / static_cast<float>(top);
      const float largest_scale =
          format.has_minimum ? 2.05f / static_cast<float>(top) : 1.0f / static_cast<float>(top / 2);
      make_multiples(begin / 16, largest_scale, scale, minimum, group.multiples);
    } else if (format.scales == ScaleType::kF16) {
      scale = from_f16(to_f16(scale));
      minimum = from_f16(to_f16(minimum));
    }
    group.scales[begin / 16] = scale;
    (begin == 0 ? group.minimum : group.second_minimum) = minimum;
    const float factor = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (int i = begin; i < begin + step; ++i) {
      if (format.has_table) {
        group.values[i] = nearest_of_table(weights[i] * factor);
        continue;
      }
      const float value =
          std::round((weights[i] - minimum) * factor) + static_cast<float>(format.zero());
      group.values[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0f, static_cast<float>(top)));
    }
  }
  return group;
}

bool is_ours(const QuantFormat& format) {
  return format.scale_group == 32 && format.scales != ScaleType::kMultiples &&
         format.has_minimum == (format.bits == 4);
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

}  // namespace

MatmulSample::MatmulSample(const Kernels& kernels, std::int64_t rows, std::int64_t outputs,
                           std::int64_t inputs)
    : outputs_(outputs),
      inputs_(inputs),
      stride_(pad_to_lanes(inputs)),
      row_bytes_(quantized_row_bytes(inputs)) {
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
  rows_.resize(static_cast<std::size_t>(rows * row_bytes_));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::copy_n(x.begin() + r * inputs, inputs, x_.begin() + r * stride_);
    kernels.quantize_row(x_.data() + r * stride_, inputs, rows_.data() + r * row_bytes_);
  }
}

std::vector<float> MatmulSample::run(const Kernels& kernels, const Kind& kind, std::int64_t first,
                                     std::int64_t count, std::int64_t cut) const {
  std::vector<float> y(static_cast<std::size_t>(count * outputs_), -1.0f);
  const MatmulOutput output{y.data(), outputs_, nullptr, false};
  kernels.matmul(matrix(kind), input(first, count), {cut, outputs_}, output);
  if (cut > 0) kernels.matmul(matrix(kind), input(first, count), {0, cut}, output);
  return y;
}

MatmulInput MatmulSample::input(std::int64_t first, std::int64_t count) const {
  return {count, stride_, x_.data() + first * stride_, rows_.data() + first * row_bytes_};
}

WeightMatrix MatmulSample::matrix(const Kind& kind) const {
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

double MatmulSample::reference(std::int64_t row, std::int64_t output) const {
  double sum = 0;
  for (std::int64_t k = 0; k < inputs_; ++k) {
    sum += static_cast<double>(f32_[static_cast<std::size_t>(output * inputs_ + k)]) *
           x_[static_cast<std::size_t>(row * stride_ + k)];
  }
  return sum;
}

WeightMatrix MatmulSample::empty_matrix(const Kind& kind) const {
  return {.type = kind.type, .format = kind.format, .outputs = outputs_, .inputs = inputs_};
}

}  // namespace outrider
