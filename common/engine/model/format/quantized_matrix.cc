// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/quantized_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace outrider {
namespace {

constexpr std::int64_t kWordBits = 32;
constexpr std::int64_t kMaxRows = 16;  // that are widened together
// Where a word of AWQ has its eight outputs.
constexpr std::array<int, 8> kAwqShifts = {0, 16, 4, 20, 8, 24, 12, 28};

std::uint32_t word_at(std::span<const std::byte> words, std::int64_t index) {
  std::uint32_t word = 0;
  std::memcpy(&word, words.data() + index * 4, sizeof(word));
  return word;
}

int awq_integer(std::span<const std::byte> words, std::int64_t row, std::int64_t outputs,
                std::int64_t output) {
  const std::uint32_t word = word_at(words, row * (outputs / 8) + output / 8);
  return static_cast<int>(word >> kAwqShifts[static_cast<std::size_t>(output % 8)] & 15);
}

// Number `index` of a string of bits whose words are `stride` apart.
int bits_at(std::span<const std::byte> words, std::int64_t first, std::int64_t stride,
            std::int64_t index, int bits) {
  const std::int64_t bit = index * bits, at = bit % kWordBits;
  const std::int64_t word = first + bit / kWordBits * stride;
  std::uint32_t value = word_at(words, word) >> at;
  if (at + bits > kWordBits) value |= word_at(words, word + stride) << (kWordBits - at);
  return static_cast<int>(value & ((1U << bits) - 1));
}

float number_at(std::span<const std::byte> values, DType dtype, std::int64_t index) {
  if (dtype == DType::kF32) {
    float value = 0;
    std::memcpy(&value, values.data() + index * 4, sizeof(value));
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, values.data() + index * 2, sizeof(half));
  return dtype == DType::kF16 ? from_f16(half) : from_bf16(half);
}

// Inputs [begin, begin + length) of an output.
void widen_e4m3(const QuantizedMatrix& matrix, std::int64_t output, std::int64_t begin,
                std::int64_t length, float* out) {
  static const auto kNumbers = [] {
    std::array<float, 256> numbers{};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = from_f8_e4m3(static_cast<std::uint8_t>(i));
    }
    return numbers;
  }();
  const std::byte* from =
      matrix.numbers.data() + (matrix.first_output + output) * matrix.inputs + begin;
  for (std::int64_t k = 0; k < length;) {
    const std::int64_t group = matrix.group_of(begin + k);
    const float factor = matrix.scale(output, group);
    const std::int64_t end = std::min(length, (group + 1) * matrix.group_size - begin);
    for (; k < end; ++k) out[k] = factor * kNumbers[std::to_integer<std::size_t>(from[k])];
  }
}

}  // namespace

QuantizedMatrix QuantizedMatrix::rows(std::int64_t first, std::int64_t count) const {
  QuantizedMatrix part = *this;
  part.first_output += first;
  part.outputs = count;
  return part;
}

std::int64_t QuantizedMatrix::group_of(std::int64_t input) const {
  return group_ids.empty() ? input / group_size : word_at(group_ids, input);
}

int QuantizedMatrix::integer(std::int64_t output, std::int64_t input) const {
  output += first_output;
  if (method == QuantMethod::kAwq) return awq_integer(numbers, input, stored_outputs, output);
  return bits_at(numbers, output, stored_outputs, input, bits);
}

int QuantizedMatrix::zero(std::int64_t output, std::int64_t group) const {
  output += first_output;
  if (method == QuantMethod::kAwq) return awq_integer(zeros, group, stored_outputs, output);
  const std::int64_t row = group * (stored_outputs * bits / kWordBits);
  const int stored = bits_at(zeros, row, 1, output, bits);
  return zeros_less_one ? (stored + 1) & ((1 << bits) - 1) : stored;
}

float QuantizedMatrix::scale(std::int64_t output, std::int64_t group) const {
  output += first_output;
  const std::int64_t index = method == QuantMethod::kFp8
                                 ? output / group_outputs * num_groups + group
                                 : group * stored_outputs + output;
  return number_at(scales, scale_dtype, index);
}

void QuantizedMatrix::widen(std::int64_t begin, std::span<float> out) const {
  while (!out.empty()) {
    const std::int64_t row = begin / inputs, skip = begin % inputs;
    const auto left = static_cast<std::int64_t>(out.size());
    const bool whole = skip == 0 && left >= inputs;
    const std::int64_t count = whole ? std::min(left / inputs, kMaxRows) : 1;
    const std::int64_t length = std::min(inputs - skip, left);
    widen_rows(row, count, skip, length, out.data());
    begin += count * length;
    out = out.subspan(static_cast<std::size_t>(count * length));
  }
}

// Inputs [begin, begin + length) of at most kMaxRows rows.
void QuantizedMatrix::widen_rows(std::int64_t first, std::int64_t count, std::int64_t begin,
                                 std::int64_t length, float* out) const {
  if (method == QuantMethod::kFp8) {
    for (std::int64_t i = 0; i < count; ++i) {
      widen_e4m3(*this, first + i, begin, length, out + i * length);
    }
    return;
  }
  std::array<float, kMaxRows> factors{};
  std::array<int, kMaxRows> offsets{};
  std::int64_t current = -1;
  for (std::int64_t k = 0; k < length; ++k) {
    const std::int64_t group = group_of(begin + k);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (group != current) {
        factors[at] = scale(first + i, group);
        offsets[at] = zero(first + i, group);
      }
      out[i * length + k] =
          factors[at] * static_cast<float>(integer(first + i, begin + k) - offsets[at]);
    }
    current = group;
  }
}

}  // namespace outrider
