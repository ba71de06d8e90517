// The kernels of the cpu backend: one table of functions per instruction set, with equal bits from
// all (docs/row-invariance.md).
//
// One call computes an output element completely, in an order that depends on its own row only: not
// on other rows, on the requested part of the outputs, or on the instruction set.
//
// Thread rule: pure functions of their arguments; calls that write different outputs may run
// concurrently. Callers own all memory and have checked all sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/vector_targets.h"
#include "common/engine/model/cpu/kernels/quant_format.h"

namespace outrider {

// Raise it when the bits of a kernel's results change. Where only the layout of the weights does,
// the version of files with weights rises instead (pack_index.cc).
inline constexpr const char* kKernelVersion = "4";

// Rounds up to whole 16 lanes: the stride of activations and of cached keys and values.
inline constexpr std::int64_t pad_to_lanes(std::int64_t count) {
  return (count + 15) / 16 * 16;
}

enum class WeightType : std::uint8_t { kF32, kBf16, kF16, kQuantized };

// A weight matrix [outputs, inputs]. f32, bf16 and f16: row-major, no alignment needed. kQuantized:
// panels of `format` (quant_format.h) one after the other, at a multiple of 64 bytes.
//
// A level of an elastic model has the first outputs, or the first inputs, of a wider matrix in
// memory: whole groups of 32 inputs, whose products are the wider one's, ended early.
struct WeightMatrix {
  WeightType type = WeightType::kF32;
  QuantFormat format = {};
  const void* data = nullptr;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  std::int64_t stored_inputs = 0;  // of a row in memory; 0: `inputs`
  // Null: the matrix lies at `data`. Else its inputs lie in so many matrices of the same outputs
  // and format, whole steps of 32 each except the last: a sum goes on from one to the next.
  const WeightMatrix* parts = nullptr;
  std::int64_t num_parts = 0;

  std::int64_t row_inputs() const { return stored_inputs == 0 ? inputs : stored_inputs; }
};

// Where a matrix's inputs lie, in their order: 1 to kMaxParts matrices without parts.
inline constexpr std::int64_t kMaxParts = 32;
inline std::span<const WeightMatrix> parts_of(const WeightMatrix& matrix) {
  if (matrix.parts == nullptr) return {&matrix, 1};
  return {matrix.parts, static_cast<std::size_t>(matrix.num_parts)};
}

// Rows of activations.
struct MatmulInput {
  std::int64_t rows = 0;
  std::int64_t stride = 0;               // pad_to_lanes(inputs)
  const float* values = nullptr;         // [rows, stride] f32, zero beyond `inputs`
  const std::byte* quantized = nullptr;  // [rows] of QuantizedGroups; read by kQuantized only
  // Equal numbers, if not 0, mean equal rows and values, for weights whose inputs lie in the same
  // parts: data that a thread prepared for its first product is reused for the next.
  std::uint64_t number = 0;
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

// Keys and values are in pages of 64 cells: [page][head][cell][element].
inline constexpr std::int64_t kKvPageSlots = 64;

// Long contexts are cut into parts of so many absolute positions, which threads share. A part's
// partial result: the weighted values [head_stride], the maximum of the scores, the weights' sum.
inline constexpr std::int64_t kAttentionPart = 1024;
inline constexpr std::int64_t kPartialExtra = 16;  // floats after the values, two of them used

inline constexpr std::int64_t kMaxSharedQueries = 64;
inline constexpr std::int64_t kMaxHeadStride = 512;

// One row's task for a part of its positions.
struct AttentionRow {
  const float* queries = nullptr;      // [num_queries, head_stride] f32, zero beyond head_dim
  float* partials = nullptr;           // [num_queries, partial_stride] f32
  const std::int32_t* path = nullptr;  // cells by position
  std::int64_t begin = 0;              // the first position seen, and one past the last, of one
  std::int64_t end = 0;                // part; none if begin >= end
};

// Cells that are read next, of one head of a sequence.
struct CellsAhead {
  const void* keys = nullptr;  // of cell 0
  const void* values = nullptr;
  const std::int32_t* cells = nullptr;  // [count]
  std::int64_t count = 0;               // none if <= 0
};

// Attention of rows over one head of one sequence's keys and values, for the query heads that share
// it.
struct AttentionTask {
  const AttentionRow* rows = nullptr;
  std::int64_t num_rows = 0;
  std::int64_t num_queries = 0;     // of each row, at most kMaxSharedQueries
  std::int64_t head_stride = 0;     // pad_to_lanes(head_dim), at most kMaxHeadStride
  std::int64_t partial_stride = 0;  // floats
  // The keys and values of cell 0, f32 or bf16; zero beyond head_dim.
  const void* keys = nullptr;
  const void* values = nullptr;
  bool is_bf16 = false;
  std::int64_t page_stride = 0;  // elements from page to page
  float scale = 1.0f;            // of query * key, 1 / sqrt(head_dim)
  float cap = 0.0f;              // scores become cap * tanh(score / cap); 0: they stay
  CellsAhead next = {};          // of the task that follows, prefetched meanwhile
};

// The weights of one norm, [count] f32.
struct NormWeights {
  const float* weight = nullptr;
  const float* bias = nullptr;
};

using ActivationFunction = void (*)(float* gate, const float* up, std::int64_t count);

struct Kernels {
  VectorTarget target;

  // Fills y for all rows and the given outputs.
  void (*matmul)(const WeightMatrix& weights, const MatmulInput& x, Outputs part,
                 const MatmulOutput& y);

  // Quantises one row of activations, [count] f32, symmetrically to +-127, to its QuantizedGroups.
  void (*quantize_row)(const float* x, std::int64_t count, std::byte* out);

  // Quantises 32 weights to 8 bits without a minimum, or to 4 bits with one.
  void (*quantize_weights)(const float* weights, const QuantFormat& format, WeightGroup* out);

  // y = x / sqrt(mean(x^2) + epsilon) * weight, over `count` elements; y may be x.
  void (*rms_norm)(const float* x, const float* weight, std::int64_t count, float epsilon,
                   float* y);

  // y = (x - mean(x)) / sqrt(variance(x) + epsilon) * weight + bias, over `count` elements; y may
  // be x.
  void (*layer_norm)(const float* x, const NormWeights& weights, std::int64_t count, float epsilon,
                     float* y);

  // gate = f(gate) * up, or f(gate) where up is null, over `count` elements, a multiple of 16.
  ActivationFunction silu_multiply;
  ActivationFunction gelu_multiply;       // x * (1 + erf(x / sqrt(2))) / 2
  ActivationFunction gelu_tanh_multiply;  // x * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
  ActivationFunction relu_multiply;

  // x = cap * tanh(x / cap), over `count` elements.
  void (*soft_cap)(float* x, std::int64_t count, float cap);

  void (*attention)(const AttentionTask& task);

  // out [head_stride] = the result of a row's parts in order of position, part_stride floats apart.
  void (*combine_attention)(const float* partials, std::int64_t parts, std::int64_t part_stride,
                            std::int64_t head_stride, float* out);
};

// The table for a target that this CPU has.
const Kernels& kernels_for(VectorTarget target);

}  // namespace outrider
