// The attention of a pass: rotates and normalises the heads of queries, keys and values, stores
// keys and values in their slots, and attends each row to the positions on its path.
//
// Rows of one sequence are computed together for each block of positions, so that the block is read
// once. Threads divide the work by sequences, heads and parts of the positions, none of which
// changes a bit (kernels.h, docs/row-invariance.md).
//
// Thread rule: one thread calls; the loops' threads work inside.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/cpu/cpu_kv_cache.h"
#include "common/model/cpu/cpu_weights.h"
#include "common/model/cpu/kernels/aligned_buffer.h"
#include "common/model/cpu/kernels/kernels.h"
#include "common/model/cpu/pass_loops.h"
#include "common/model/model.h"

namespace outrider {

class AttentionStage final {
 public:
  // All outlive this.
  AttentionStage(const ModelConfig& config, const Kernels& kernels, PassLoops& loops);

  // Takes the rows of a pass; their caches are CpuKvCaches of this model.
  void prepare(std::span<const Row> rows);

  // Destinations of a layer's projections: [rows, heads * head_dim] and [rows, kv_heads *
  // head_dim].
  float* queries() { return queries_flat_.data(); }
  float* keys() { return keys_flat_.data(); }
  float* values() { return values_flat_.data(); }

  // Normalises and rotates the heads of a layer, and stores its keys and values.
  void place(const CpuLayer& layer, std::int64_t index);

  // The attention's result, heads side by side, to out [rows, stride].
  void attend(const CpuLayer& layer, std::int64_t index, float* out, std::int64_t stride);

 private:
  // Most rows that one task computes together.
  static constexpr std::int64_t kChunkRows = 32;

  // A row's state, the same for every layer.
  struct RowState {
    CpuKvCache* cache;
    Slot slot;
    std::vector<Slot> path;  // slots by position, the row's own last
  };

  // Rows [begin, end) of order_, all of one sequence.
  struct Chunk {
    std::int64_t begin;
    std::int64_t end;
  };

  void order_rows();
  void place_row(const CpuLayer& layer, std::int64_t index, std::int64_t row);
  void place_head(const std::vector<float>& norm, float* from, std::int64_t row, float* to) const;
  void attend_chunk(std::int64_t window, std::int64_t index, const Chunk& chunk, std::int64_t first,
                    std::int64_t head, std::int64_t part);
  void attend_slice(std::int64_t window, std::int64_t index, std::span<const Chunk> slice,
                    float* out, std::int64_t stride);

  const RowState& state(std::int64_t row) const { return states_[static_cast<std::size_t>(row)]; }
  // The size of one row's partial results, in floats.
  std::int64_t row_partials() const { return heads_ * parts_ * partial_stride_; }

  // Constant after construction.
  const Kernels& kernels_;
  PassLoops& loops_;
  const std::vector<float> frequencies_;  // radians per position, [head_dim / 2]
  const std::int64_t heads_;
  const std::int64_t kv_heads_;
  const std::int64_t head_dim_;
  const std::int64_t head_stride_;     // pad_to_lanes(head_dim)
  const std::int64_t partial_stride_;  // of one head's partial result, in floats
  const float epsilon_;                // of the heads' RMS norms

  // The current pass.
  std::int64_t rows_ = 0;
  std::int64_t parts_ = 0;           // of the longest row's positions
  std::vector<RowState> states_;     // [at least rows]
  std::vector<std::int64_t> order_;  // rows, those of a sequence together
  std::vector<Chunk> chunks_;
  AlignedBuffer<float> cos_, sin_;                // [rows, head_dim / 2]
  AlignedBuffer<float> queries_flat_;             // [rows, heads * head_dim]
  AlignedBuffer<float> keys_flat_, values_flat_;  // [rows, kv_heads * head_dim]
  AlignedBuffer<float> queries_;                  // [rows, heads, head_stride]
  AlignedBuffer<float> partials_;                 // [rows of a slice, heads, parts, partial_stride]
};

}  // namespace outrider
