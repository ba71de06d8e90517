// The attention of a pass: heads of queries, keys and values made ready, keys and values put into
// their slots, and each row's look at the positions on its path.
//
// Rows of one sequence look together at a block of positions, so that it is read once; work is
// shared among threads by sequences, heads and parts of the positions, none of which can change a
// bit (kernels.h, docs/row-invariance.md).
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

  // Takes in the rows of a pass; their caches are CpuKvCaches of this model.
  void prepare(std::span<const Row> rows);

  // Where the projections of a layer go: [rows, heads * head_dim] and [rows, kv_heads * head_dim].
  float* queries() { return queries_flat_.data(); }
  float* keys() { return keys_flat_.data(); }
  float* values() { return values_flat_.data(); }

  // Norms and turns the heads of a layer, and fills its keys and values.
  void place(const CpuLayer& layer, std::int64_t index);

  // What rows saw, heads side by side, to out [rows, stride].
  void attend(const CpuLayer& layer, std::int64_t index, float* out, std::int64_t stride);

 private:
  // Rows that one task looks with.
  static constexpr std::int64_t kChunkRows = 32;

  // What a row needs to know in every layer.
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
  // Of the partial results of one row, in floats.
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
