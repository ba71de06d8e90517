// Every kernel of the cuda backend on drawn inputs, compared with the CPU's kernels bit for bit.
//
// Inputs hold subnormals, both zeros and values near the largest that make no infinity; outputs are
// poisoned first, so that one which is not written differs.
//
// Thread rule: pure functions of their arguments, except for the memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cuda/cases/case_memory.h"
#include "common/engine/model/cuda/kernels/kernels.h"

namespace outrider::gpu {

struct CaseResult {
  std::string name;
  std::int64_t outputs = 0;      // numbers, or bytes of quantised rows, compared
  std::int64_t different = 0;    // with other bits
  std::int64_t not_numbers = 0;  // of the CPU's: such inputs prove nothing
};

// Weights of every kind that products take.
struct WeightKind {
  const char* name;
  WeightType type;
  QuantFormat format = {};
};
const std::vector<WeightKind>& weight_kinds();

struct ProductShape {
  std::int64_t rows;
  std::vector<std::int64_t> outputs;  // of each product of the launch
  std::int64_t inputs;
  std::int64_t stored_inputs = 0;  // of a wider matrix, whose first inputs these are; 0: all
};

struct CaseContext {
  const Kernels& cpu;
  CaseMemory& memory;
  std::uint64_t seed;
  cuda::Stream stream = nullptr;  // the memory's read() waits for it
};

// A weight matrix on the host: [outputs, inputs] as the CPU's kernels take it.
struct DrawnMatrix {
  std::vector<std::byte> bytes;
  std::size_t begin = 0;  // of the matrix, at a multiple of 64
  WeightMatrix matrix;

  std::vector<std::byte> on_device() const;  // as the cuda backend takes it
};
DrawnMatrix draw_matrix(const WeightKind& kind, std::int64_t outputs, std::int64_t inputs,
                        std::uint64_t seed);

// Activations [rows, stride] and their quantised rows.
struct DrawnRows {
  std::vector<float> values;
  std::vector<std::byte> quantized;
};
DrawnRows draw_rows(const Kernels& cpu, std::int64_t rows, std::int64_t count, std::uint64_t seed);

CaseResult check_product(const CaseContext& context, const WeightKind& kind,
                         const ProductShape& shape, const cuda::ProductChoice& choice = {});
// Norm, quantisation, activation function and embedding of rows of `count`.
std::vector<CaseResult> check_rows(const CaseContext& context, std::int64_t rows,
                                   std::int64_t count);
CaseResult check_placement(const CaseContext& context, std::int64_t rows, const cuda::Heads& shape,
                           bool is_bf16);

// Rows of a tree behind `prefix` positions: each sees a common prefix and a path of its own. Those
// of a chain follow each other, and one list has all their slots.
struct AttentionShape {
  cuda::Heads heads;
  std::int64_t rows;
  std::int32_t prefix;
  std::int32_t window;  // positions seen; 0: all
  bool is_bf16;
  bool is_chain = false;
};
CaseResult check_attention(const CaseContext& context, const AttentionShape& shape);

// Rows of drawn shapes, each with its own settings: the tokens that are chosen of them.
CaseResult check_choices(const CaseContext& context, std::int64_t rows, std::int64_t tokens);
// The noise of so many tokens, each the only one of its row.
CaseResult check_noise(const CaseContext& context, std::int64_t rows);

}  // namespace outrider::gpu
