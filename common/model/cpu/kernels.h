// The kernels of the cpu backend: one table of functions per instruction set, equal bits from all
// (docs/row-invariance.md).
//
// Every output element is computed wholly by one call, in an order that depends on its own row
// only: not on the rows beside it, the part of the outputs asked for, or the instruction set.
//
// Thread rule: pure functions of their arguments; calls that write different outputs may run side
// by side. Callers own all memory and have checked all sizes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/vector_targets.h"

namespace outrider {

// Rounds up to whole 16 lanes: the stride of activations and of cached keys and values.
inline constexpr std::int64_t pad_to_lanes(std::int64_t count) {
  return (count + 15) / 16 * 16;
}

enum class WeightType : std::uint8_t { kF32, kBf16, kF16, kInt8 };

// Int8 weights and activations share one layout. Along K, 32 elements are a group with one scale
// and 16 groups are a block, zero padded. Within a block, step s (0..7) holds elements 4s..4s+3 of
// each of the 16 groups, so that a 32-bit integer lane sums one group and no sum crosses lanes:
//
//   byte s * 64 + g * 4 + i  =  element 4s + i of group g
inline constexpr std::int64_t kInt8Group = 32;
inline constexpr std::int64_t kInt8BlockGroups = 16;
inline constexpr std::int64_t kInt8Block = kInt8Group * kInt8BlockGroups;

inline constexpr std::int64_t int8_blocks(std::int64_t count) {
  return (count + kInt8Block - 1) / kInt8Block;
}

// A weight matrix [outputs, inputs], row-major, no alignment needed. kInt8: data is
// [outputs, blocks, 512] int8 and scales [outputs, blocks, 16] bf16; else scales is null.
struct WeightMatrix {
  WeightType type = WeightType::kF32;
  const void* data = nullptr;
  const std::uint16_t* scales = nullptr;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
};

// One block of a quantised row of activations: x = scale * value.
struct Int8Block {
  std::int8_t values[kInt8Block];
  float scales[kInt8BlockGroups];
  std::int32_t offsets[kInt8BlockGroups];  // -128 * the sum of the group's values (for VNNI)
};

// Rows of activations.
struct MatmulInput {
  std::int64_t rows = 0;
  std::int64_t stride = 0;               // pad_to_lanes(inputs)
  const float* values = nullptr;         // [rows, stride] f32, zero beyond `inputs`
  const Int8Block* quantized = nullptr;  // [rows, int8_blocks(inputs)]; read by kInt8 only
};

// y[row][n] = (add ? y[row][n] : 0) + (dot + bias[n]); bias may be null.
struct MatmulOutput {
  float* y = nullptr;  // [rows, stride] f32
  std::int64_t stride = 0;
  const float* bias = nullptr;  // [outputs] f32
  bool add = false;
};

// A part [begin, end) of a matrix's outputs.
struct Outputs {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Attention of one row over one head of keys and values, for the query heads that share it.
struct AttentionTask {
  const float* queries = nullptr;  // [num_queries, head_stride] f32, zero beyond head_dim
  float* out = nullptr;            // [num_queries, head_stride] f32
  std::int64_t num_queries = 0;    // at most kMaxSharedQueries
  std::int64_t head_stride = 0;    // pad_to_lanes(head_dim)
  const float* keys = nullptr;     // key of slot s at keys + s * slot_stride, zero beyond head_dim
  const float* values = nullptr;   // value of slot s at values + s * slot_stride
  std::int64_t slot_stride = 0;
  const std::int32_t* path = nullptr;  // slots by position; the last is the row's own
  std::int64_t begin = 0;              // the first position seen (sliding window)
  std::int64_t end = 0;                // one past the last, > begin
  float scale = 1.0f;                  // 1 / sqrt(head_dim)
};

inline constexpr std::int64_t kMaxSharedQueries = 64;

struct Kernels {
  VectorTarget target;

  // Fills y for all rows and the given outputs.
  void (*matmul)(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                 const MatmulOutput& y);

  // Quantises one row of activations, [count] f32, symmetric to +-127.
  void (*quantize_row)(const float* x, std::int64_t count, Int8Block* out);

  // Quantises one row of weights of type f32, bf16 or f16, [inputs]; see WeightMatrix.
  void (*quantize_weights)(const void* row, WeightType type, std::int64_t inputs,
                           std::int8_t* values, std::uint16_t* scales);

  // y = x / sqrt(mean(x^2) + epsilon) * weight, over `count` elements; y may be x.
  void (*rms_norm)(const float* x, const float* weight, std::int64_t count, float epsilon,
                   float* y);

  // gate = silu(gate) * up, over `count` elements, a multiple of 16.
  void (*silu_multiply)(float* gate, const float* up, std::int64_t count);

  void (*attention)(const AttentionTask& task);
};

// The table for a target that this CPU has.
const Kernels& kernels_for(VectorTarget target);

}  // namespace outrider
