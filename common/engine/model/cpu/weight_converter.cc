// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/weight_converter.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cpu/stored_blocks.h"

namespace outrider {
namespace {

constexpr std::int64_t kSliceBytes = 4 << 20;

// f16 scales are used if the largest is at least f16's smallest normal number and none exceeds its
// range.
constexpr float kSmallestLargestScale = 0x1p-14f;
constexpr float kF16Largest = 65504.0f;

// The largest magnitude over all threads.
class Largest final {
 public:
  void take(float value) {
    // Non-negative floats have the order of their bits.
    const auto bits = std::bit_cast<std::uint32_t>(std::fabs(value));
    std::uint32_t seen = bits_.load(std::memory_order_relaxed);
    while (seen < bits && !bits_.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
    }
  }
  float value() const { return std::bit_cast<float>(bits_.load(std::memory_order_relaxed)); }

 private:
  std::atomic<std::uint32_t> bits_{0};
};

}  // namespace

Result<std::byte*> WeightArena::take(std::int64_t bytes) {
  constexpr std::int64_t kLine = 64, kChunkBytes = 64 << 20;
  const std::int64_t begin = (used_ + kLine - 1) / kLine * kLine;
  if (begin + bytes <= size_) {
    used_ = begin + bytes;
    return chunks_.back().as<std::byte>() + begin;
  }
  const std::int64_t size = std::max(bytes, kChunkBytes);
  OUTRIDER_ASSIGN_OR_RETURN(
      AnonymousMemory chunk,
      AnonymousMemory::make(size, "the converted weights", "a smaller model"));
  chunks_.push_back(std::move(chunk));
  size_ = size;
  used_ = bytes;
  return chunks_.back().as<std::byte>();
}

void WeightArena::give_back(std::byte* taken) {
  const std::int64_t begin = taken - chunks_.back().as<std::byte>();
  std::memset(taken, 0, static_cast<std::size_t>(used_ - begin));
  used_ = begin;
}

void WeightArena::clear() {
  chunks_.clear();
  used_ = size_ = 0;
}

Status WeightConverter::convert(const TensorView& tensor, WeightMatrix& matrix, WeightArena& arena,
                                std::span<const TokenId> chosen, const RowsDone& on_rows) {
  const Rows source{tensor, chosen, on_rows};
  OUTRIDER_ASSIGN_OR_RETURN(std::byte * data, arena.take(bytes_of(matrix)));
  if (matrix.type != WeightType::kQuantized) {
    round_rows(source, matrix, data);
  } else if (keeps_blocks(matrix.format, stored_format(tensor)) && tensor.keeps_runs(kQuantGroup)) {
    if (tensor.quantized != nullptr) {
      copy_groups(source, matrix, data);
    } else {
      copy_blocks(source, matrix, data);
    }
  } else if (!quantize_rows(source, matrix, data)) {
    arena.give_back(data);
    matrix.format.scales = ScaleType::kF32;
    OUTRIDER_ASSIGN_OR_RETURN(data, arena.take(bytes_of(matrix)));
    quantize_rows(source, matrix, data);
  }
  matrix.data = data;
  return {};
}

// Rows of one panel are converted by one thread.
void WeightConverter::for_all_rows(const Rows& source, const RowsConverter& convert_rows) {
  const TensorView& tensor = source.tensor;
  const bool all = source.chosen.empty();
  const bool by_rows = tensor.quantized == nullptr;  // these are stored by columns
  const std::int64_t outputs = all ? tensor.num_rows() : std::ssize(source.chosen);
  const std::int64_t row_bytes = tensor.row_bytes();
  const std::int64_t slice =
      std::max<std::int64_t>(kSliceBytes / row_bytes / kPanelOutputs, 1) * kPanelOutputs;
  for (std::int64_t first = 0; first < outputs; first += slice) {
    const std::int64_t count = std::min(slice, outputs - first);
    pool_.parallel_for(count, kPanelOutputs, [&](std::int64_t begin, std::int64_t end) {
      convert_rows(first + begin, first + end);
    });
    if (source.on_rows) source.on_rows(first + count);
    if (all && by_rows) {
      forget_pages({tensor.data + first * row_bytes, static_cast<std::size_t>(count * row_bytes)});
    }
  }
  if (!by_rows) forget_pages({tensor.data, tensor.quantized->numbers.size()});
}

void WeightConverter::for_each_row(const Rows& source, const RowConverter& convert_row) {
  const std::int64_t inputs = source.tensor.shape[1];
  for_all_rows(source, [&](std::int64_t begin, std::int64_t end) {
    // Quantised matrices are stored by columns: a panel's rows are read together.
    const bool together = source.tensor.quantized != nullptr && source.chosen.empty();
    const std::int64_t step = together ? kPanelOutputs : 1;
    std::vector<float> rows(static_cast<std::size_t>(step * inputs));
    for (std::int64_t n = begin; n < end; n += step) {
      const std::int64_t count = std::min(step, end - n);
      widen(source.tensor, source.row(n) * inputs,
            {rows.data(), static_cast<std::size_t>(count * inputs)});
      for (std::int64_t i = 0; i < count; ++i) convert_row(n + i, rows.data() + i * inputs);
    }
  });
}

void WeightConverter::copy_blocks(const Rows& source, const WeightMatrix& matrix, std::byte* data) {
  const PanelWriter writer(matrix.format, matrix.inputs, data);
  const TensorView& tensor = source.tensor;
  const std::int64_t in_block = block_elements(tensor.dtype) / kQuantGroup;
  const std::int64_t groups = matrix.inputs / kQuantGroup;
  const QuantFormat stored = *stored_format(tensor.dtype);
  for_all_rows(source, [&](std::int64_t begin, std::int64_t end) {
    std::vector<WeightGroup> row(static_cast<std::size_t>(groups));
    for (std::int64_t n = begin; n < end; ++n) {
      const std::byte* block = tensor.row(source.row(n));
      for (std::int64_t at = 0; at < groups; at += in_block, block += block_bytes(tensor.dtype)) {
        unpack_block(tensor.dtype, block, row.data() + at);
      }
      for (std::int64_t at = 0; at < groups; ++at) {
        const std::int64_t from = tensor.column_of(at * kQuantGroup) / kQuantGroup;
        WeightGroup group = row[static_cast<std::size_t>(from)];
        renumber(stored, matrix.format, group);
        writer.store(n, at, group);
      }
    }
  });
}

// A panel's rows together, as the matrix is stored by columns.
void WeightConverter::copy_groups(const Rows& source, const WeightMatrix& matrix, std::byte* data) {
  const PanelWriter writer(matrix.format, matrix.inputs, data);
  const QuantizedMatrix& quantized = *source.tensor.quantized;
  const std::int64_t groups = (matrix.inputs + kQuantGroup - 1) / kQuantGroup;
  const QuantFormat stored = *stored_format(quantized);
  for_all_rows(source, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin; first < end; first += kPanelOutputs) {
      for (std::int64_t at = 0; at < groups; ++at) {
        for (std::int64_t n = first; n < std::min(first + kPanelOutputs, end); ++n) {
          WeightGroup group;
          unpack_group(quantized, source.row(n), at, group);
          renumber(stored, matrix.format, group);
          writer.store(n, at, group);
        }
      }
    }
  });
}

void WeightConverter::round_rows(const Rows& source, const WeightMatrix& matrix, std::byte* data) {
  const std::int64_t inputs = matrix.inputs;
  for_each_row(source, [&](std::int64_t n, const float* row) {
    if (matrix.type == WeightType::kF32) {
      std::copy_n(row, inputs, reinterpret_cast<float*>(data) + n * inputs);
    } else {
      std::transform(row, row + inputs, reinterpret_cast<std::uint16_t*>(data) + n * inputs,
                     matrix.type == WeightType::kF16 ? to_f16 : to_bf16);
    }
  });
}

// False if f16 scales lack the range for this matrix.
bool WeightConverter::quantize_rows(const Rows& source, const WeightMatrix& matrix,
                                    std::byte* data) {
  const QuantFormat& format = matrix.format;
  const PanelWriter writer(format, matrix.inputs, data);
  const std::int64_t inputs = matrix.inputs;
  Largest largest_scale, largest;
  for_each_row(source, [&](std::int64_t n, const float* row) {
    for (std::int64_t at = 0; at < inputs; at += kQuantGroup) {
      float padded[kQuantGroup] = {};
      std::copy_n(row + at, std::min(kQuantGroup, inputs - at), padded);
      WeightGroup group;
      kernels_.quantize_weights(padded, format, &group);
      largest_scale.take(group.scales[0]);
      largest.take(std::max(group.scales[0], std::fabs(group.minimum)));
      writer.store(n, at / kQuantGroup, group);
    }
  });
  if (format.scales == ScaleType::kF32 || largest.value() == 0.0f) return true;
  return largest_scale.value() >= kSmallestLargestScale && largest.value() <= kF16Largest;
}

}  // namespace outrider
