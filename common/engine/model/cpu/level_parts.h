// How a pack keeps the layers of an elastic model: level by level from the smallest, each level
// with what it adds to the matrices of the one before (docs/elastic.md).
//
//   level 40    the first rows of q, k, v, gate and up; the first columns of o and down
//   level 60    the rows below these; the columns beside them
//   level 100   the rest
//
// So a level is a prefix of the layer. A part ends where memory may be cut: at whole panels of 16
// rows, at whole groups of 32 columns, or at whole blocks of 256 where scales are multiples
// (quant_format.h); a level may end within its last part.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/elastic_table.h"

namespace outrider {

// Columns [begin, end) of a layer's o or down, or rows of another matrix.
struct LevelPart {
  std::size_t matrix = 0;  // of layer_matrices()
  std::size_t level = 0;   // of the table: the smallest that reads it
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The extents of a layer, one for each level, by their place: the smallest level's is the first.
inline std::size_t extent_of_level(const ElasticTable& table, std::size_t level) {
  return table.levels.size() - 1 - level;
}
inline const ElasticLevel& level_of_extent(const ElasticTable& table, std::size_t place) {
  return table.levels[table.levels.size() - 1 - place];
}

// The parts of one layer, in their order. has_units: by matrix, whether its scales are multiples of
// units.
std::vector<LevelPart> level_parts(const ElasticTable& table, const ModelConfig& config,
                                   std::int32_t layer, const std::vector<bool>& has_units);

// Whether a matrix is cut into columns.
inline bool is_cut_in_columns(ModelPart part) {
  return part == ModelPart::kAttentionOutput || part == ModelPart::kDown;
}

// A part of a whole matrix that is in memory. memory: takes the columns, which lie apart in the
// whole matrix.
WeightMatrix cut_rows(const WeightMatrix& whole, std::int64_t begin, std::int64_t end);
WeightMatrix cut_columns(const WeightMatrix& whole, std::int64_t begin, std::int64_t end,
                         std::vector<std::byte>& memory);

}  // namespace outrider
