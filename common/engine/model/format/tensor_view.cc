// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/tensor_view.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/status.h"
#include "common/engine/model/format/dequantize.h"

namespace outrider {
namespace {

constexpr std::size_t kLongestBlock = 256;

void widen_halves(const std::byte* data, DType dtype, std::span<float> out) {
  for (float& value : out) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, data, sizeof(bits));
    data += sizeof(bits);
    value = dtype == DType::kF16 ? from_f16(bits) : from_bf16(bits);
  }
}

// The bare numbers, without their scales.
void widen_parts(const std::byte* data, DType dtype, std::span<float> out) {
  for (float& value : out) {
    if (dtype == DType::kF8E4M3) {
      value = from_f8_e4m3(std::to_integer<std::uint8_t>(*data));
    } else {
      std::int32_t number = 0;
      std::memcpy(&number, data, sizeof(number));
      value = static_cast<float>(number);
    }
    data += block_bytes(dtype);
  }
}

void widen_blocks(const std::byte* data, DType dtype, std::int64_t begin, std::span<float> out) {
  const auto length = static_cast<std::size_t>(block_elements(dtype));
  data += begin / block_elements(dtype) * block_bytes(dtype);
  auto skip = static_cast<std::size_t>(begin % block_elements(dtype));
  std::array<float, kLongestBlock> block;
  for (std::size_t done = 0; done < out.size(); data += block_bytes(dtype)) {
    const std::size_t count = std::min(length - skip, out.size() - done);
    if (count == length) {
      dequantize_block(dtype, data, out.data() + done);
    } else {
      dequantize_block(dtype, data, block.data());
      std::copy_n(block.data() + skip, count, out.data() + done);
    }
    done += count;
    skip = 0;
  }
}

// Elements from `begin` on of contiguous data.
void widen_run(const std::byte* data, DType dtype, std::int64_t begin, std::span<float> out) {
  if (block_elements(dtype) > 1) return widen_blocks(data, dtype, begin, out);
  data += begin * block_bytes(dtype);
  if (dtype == DType::kF16 || dtype == DType::kBF16) return widen_halves(data, dtype, out);
  if (needs_scales(dtype)) return widen_parts(data, dtype, out);
  if (!out.empty()) std::memcpy(out.data(), data, out.size_bytes());
}

void widen_columns(const TensorView& tensor, std::int64_t begin, std::span<float> out) {
  const std::int64_t inputs = tensor.shape[1];
  for (float& value : out) {
    const std::int64_t at =
        tensor.column_of(begin % inputs) * tensor.transposed + tensor.row_of(begin / inputs);
    widen_run(tensor.data, tensor.dtype, at, {&value, 1});
    ++begin;
  }
}

void widen_rows(const TensorView& tensor, std::int64_t begin, std::span<float> out) {
  const std::int64_t columns = tensor.num_elements() / tensor.num_rows();
  std::vector<float> stored;  // one row, where its columns have another order
  while (!out.empty()) {
    const std::int64_t skip = begin % columns;
    const auto count = std::min(static_cast<std::size_t>(columns - skip), out.size());
    if (tensor.column_order == nullptr) {
      widen_run(tensor.row(begin / columns), tensor.dtype, skip, out.first(count));
    } else {
      stored.resize(static_cast<std::size_t>(columns));
      widen_run(tensor.row(begin / columns), tensor.dtype, 0, stored);
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t column = tensor.column_of(skip + static_cast<std::int64_t>(i));
        out[i] = stored[static_cast<std::size_t>(column)];
      }
    }
    begin += static_cast<std::int64_t>(count);
    out = out.subspan(count);
  }
}

}  // namespace

std::int64_t TensorView::num_elements() const {
  if (quantized != nullptr) return quantized->outputs * quantized->inputs;
  return static_cast<std::int64_t>(num_bytes) / block_bytes(dtype) * block_elements(dtype);
}

bool TensorView::keeps_runs(std::int64_t length) const {
  if (column_order == nullptr) return true;
  const auto columns = static_cast<std::int64_t>(column_order->size());
  for (std::int64_t k = 0; k < columns; ++k) {
    const std::int64_t first = column_of(k / length * length);
    if (first % length != 0 || column_of(k) != first + k % length) return false;
  }
  return true;
}

const std::byte* TensorView::row(std::int64_t index) const {
  index = row_of(index);
  if (interleaved > 0) {
    const std::int64_t head = index / interleaved;
    const std::int64_t within = index % interleaved;
    const std::int64_t half = interleaved / 2;
    index = head * interleaved + within % half * 2 + within / half;
  }
  return data + index * row_bytes();
}

void widen(const TensorView& tensor, std::int64_t begin, std::span<float> out) {
  OUTRIDER_CHECK(begin >= 0 &&
                 begin + static_cast<std::int64_t>(out.size()) <= tensor.num_elements());
  if (tensor.quantized != nullptr) {
    tensor.quantized->widen(begin, out);
  } else if (tensor.transposed > 0) {
    widen_columns(tensor, begin, out);
  } else if (tensor.interleaved > 0 || tensor.row_order != nullptr ||
             tensor.column_order != nullptr) {
    widen_rows(tensor, begin, out);
  } else {
    widen_run(tensor.data, tensor.dtype, begin, out);
  }
  if (tensor.added == 0.0f) return;
  for (float& value : out) value += tensor.added;
}

std::vector<float> widened(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
  widen(tensor, 0, values);
  return values;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

}  // namespace outrider
