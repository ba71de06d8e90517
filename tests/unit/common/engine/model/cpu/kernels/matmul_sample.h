// Matrices of every kind that kernels multiply with, made of the same weights.
//
// Thread rule: immutable once made. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider {

struct Kind {
  const char* name;
  WeightType type;
  QuantFormat format = {};
  double tolerance = 3e-7;  // of a product, times the root of its length
};

// All types of stored matrices; the last ones occur only in files of blocks.
inline constexpr Kind kKinds[] = {
    {"f32", WeightType::kF32},
    {"bf16", WeightType::kBf16},
    {"f16", WeightType::kF16},
    {"int8", WeightType::kQuantized, {.bits = 8}, 9e-3},
    {"int8 wide", WeightType::kQuantized, {.bits = 8, .scales = ScaleType::kF32}, 9e-3},
    {"int4", WeightType::kQuantized, {.bits = 4, .has_minimum = true}, 0.12},
    {"int4 wide",
     WeightType::kQuantized,
     {.bits = 4, .scales = ScaleType::kF32, .has_minimum = true},
     0.12},
    {"int8 halves",
     WeightType::kQuantized,
     {.bits = 8, .scale_group = 16, .scales = ScaleType::kF32},
     9e-3},
    {"int8 minimum", WeightType::kQuantized, {.bits = 8, .has_minimum = true}, 1.5e-2},
    {"int4 zero 8", WeightType::kQuantized, {.bits = 4}, 0.13},
    {"int4 table", WeightType::kQuantized, {.bits = 4, .has_table = true}, 0.13},
    {"int4 halves",
     WeightType::kQuantized,
     {.bits = 4, .scale_group = 16, .scales = ScaleType::kF32},
     0.13},
    {"int4 half minimums",
     WeightType::kQuantized,
     {.bits = 4, .scale_group = 16, .scales = ScaleType::kF32, .has_minimum = true},
     0.12},
    {"int8 half minimums",
     WeightType::kQuantized,
     {.bits = 8, .scale_group = 16, .scales = ScaleType::kF32, .has_minimum = true},
     1.5e-2},
    {"int4 multiples",
     WeightType::kQuantized,
     {.bits = 4, .scales = ScaleType::kMultiples, .has_minimum = true},
     0.15},
    {"int8 multiples minimum",
     WeightType::kQuantized,
     {.bits = 8, .scales = ScaleType::kMultiples, .has_minimum = true},
     2e-2},
    {"int8 multiples halves",
     WeightType::kQuantized,
     {.bits = 8, .scale_group = 16, .scales = ScaleType::kMultiples},
     1.1e-2},
    {"int6",
     WeightType::kQuantized,
     {.bits = 6, .scale_group = 16, .scales = ScaleType::kMultiples},
     4e-2},
    {"int4 multiples half minimums",
     WeightType::kQuantized,
     {.bits = 4, .scale_group = 16, .scales = ScaleType::kMultiples, .has_minimum = true},
     0.15},
    {"int4 multiples halves",
     WeightType::kQuantized,
     {.bits = 4, .scale_group = 16, .scales = ScaleType::kMultiples},
     0.15},
    {"int4 multiples table",
     WeightType::kQuantized,
     {.bits = 4, .scales = ScaleType::kMultiples, .has_table = true},
     0.15},
};

// Weights and activations of one product, of every kind.
class MatmulSample {
 public:
  // Weights of seed 1, activations of seed 2, all in [-1, 1).
  MatmulSample(const Kernels& kernels, std::int64_t rows, std::int64_t outputs,
               std::int64_t inputs);

  // [count, outputs], computed in parts [0, cut) and [cut, outputs), of rows [first, first +
  // count).
  std::vector<float> run(const Kernels& kernels, const Kind& kind, std::int64_t first,
                         std::int64_t count, std::int64_t cut = 0) const;

  MatmulInput input(std::int64_t first, std::int64_t count) const;
  // kind: of kKinds.
  WeightMatrix matrix(const Kind& kind) const;

  double reference(std::int64_t row, std::int64_t output) const;

 private:
  WeightMatrix empty_matrix(const Kind& kind) const;

  std::int64_t outputs_, inputs_, stride_;
  std::int64_t row_bytes_;
  std::vector<float> f32_;
  std::vector<std::uint16_t> bf16_, f16_;
  std::vector<std::vector<std::byte>> quantized_;  // by kind
  std::vector<float> x_;
  std::vector<std::byte> rows_;
};

}  // namespace outrider
