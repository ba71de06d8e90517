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

#include "common/engine/model/cpu/cpu_kv_pages.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/pass_loops.h"
#include "common/engine/model/model.h"

namespace outrider {

class AttentionStage final {
 public:
  // All outlive this.
  AttentionStage(const ModelConfig& config, const Kernels& kernels, PassLoops& loops);

  // Takes the rows of a pass; their caches are in CpuKvPages of this model.
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
    const KvCache* cache;
    CpuKvPages* pages;
    std::vector<KvCell> path;  // cells by position, the row's own last
  };

  // A kind of rotation, and its angles for the rows of the pass.
  struct Rotation {
    std::vector<float> frequencies;  // radians per position, [pairs]
    double factor;                   // of cosine and sine
    AlignedBuffer<float> cos, sin;   // [rows, pairs]
  };

  // Rows [begin, end) of order_, all of one sequence.
  struct Chunk {
    std::int64_t begin;
    std::int64_t end;
    std::int64_t parts;  // of its longest row's positions

    std::int64_t rows() const { return end - begin; }
  };
  // Positions [begin, end) of a path; none if begin >= end.
  struct Positions {
    std::int64_t begin;
    std::int64_t end;
  };
  // A part of the positions of a chunk of a slice, and where in partials_ the chunk's results are.
  struct Task {
    const Chunk* chunk;
    std::int64_t part;
    float* partials;  // [row of the chunk][part][head][partial_stride]
  };

  void order_rows();
  void place_row(const CpuLayer& layer, std::int64_t index, std::int64_t row);
  void place_head(const std::vector<float>& norm, const Rotation* rotation, float* from,
                  std::int64_t row, float* to) const;
  const Rotation* rotation_of(LayerRope rope) const;
  void attend_part(std::int64_t window, std::int64_t index, const Task& task, std::int64_t head,
                   const CellsAhead& next);
  Positions seen(std::int64_t row, std::int64_t window, std::int64_t part) const;
  CellsAhead cells_of(std::int64_t window, std::int64_t index, const Task& task,
                      std::int64_t head) const;
  void attend_slice(const CpuLayer& layer, std::int64_t index, std::span<const Chunk> slice,
                    float* out, std::int64_t stride);
  void combine_row(std::int64_t heads, const Task& task, std::int64_t row, float* out);

  // A level of an elastic model has the first heads of a layer (elastic_table.h).
  std::int64_t kv_heads_of(const CpuLayer& layer) const {
    return layer.k.matrix.outputs / head_dim_;
  }
  std::int64_t heads_of(const CpuLayer& layer) const { return layer.q.matrix.outputs / head_dim_; }
  const RowState& state(std::int64_t row) const { return states_[static_cast<std::size_t>(row)]; }
  // The size of a row's partial results of one part, in floats.
  std::int64_t part_size() const { return heads_ * partial_stride_; }

  // Constant after construction.
  const Kernels& kernels_;
  PassLoops& loops_;
  const std::int64_t heads_;
  const std::int64_t kv_heads_;
  const std::int64_t head_dim_;
  const std::int64_t rotated_;         // elements of a head, the first ones
  const std::int64_t head_stride_;     // pad_to_lanes(head_dim)
  const std::int64_t partial_stride_;  // of one head's partial result, in floats
  const float epsilon_;                // of the heads' RMS norms
  const float scale_;                  // of the scores
  const float cap_;                    // of the scores; 0: none

  // The current pass.
  std::int64_t rows_ = 0;
  std::vector<RowState> states_;     // [at least rows]
  std::vector<std::int64_t> order_;  // rows, those of a sequence together
  std::vector<Chunk> chunks_;
  std::vector<Task> tasks_;                       // of a slice, a chunk's together
  std::vector<Rotation> rotations_;               // those that layers use: main, local
  AlignedBuffer<float> queries_flat_;             // [rows, heads * head_dim]
  AlignedBuffer<float> keys_flat_, values_flat_;  // [rows, kv_heads * head_dim]
  AlignedBuffer<float> queries_;                  // [rows, heads, head_stride]
  AlignedBuffer<float> partials_;                 // of the chunks of a slice, see Task
};

}  // namespace outrider
