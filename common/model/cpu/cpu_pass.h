// One pass of a decoder-only transformer (Llama, Mistral, Qwen 2, Qwen 3) over any rows, on the
// cpu kernels.
//
// Each stage is a parallel loop whose items own disjoint outputs, so neither the number of threads
// nor the split can change a bit. A row's numbers never meet another row's except through the keys
// and values of its own path (docs/row-invariance.md).
//
// Thread rule: one thread calls run(); the pool's threads work inside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/model/cpu/aligned_buffer.h"
#include "common/model/cpu/cpu_kv_cache.h"
#include "common/model/cpu/cpu_weights.h"
#include "common/model/cpu/kernels.h"
#include "common/model/cpu/rope.h"
#include "common/model/model.h"

namespace outrider {

class CpuPass final {
 public:
  // weights, kernels and pool outlive this.
  CpuPass(const CpuWeights& weights, const Kernels& kernels, ThreadPool& pool);

  // rows: checked, at most kMaxRows; their caches are CpuKvCaches of this model. out: whose tap
  // looks, and who may abandon the pass; first: rows before these that want logits. Fills keys and
  // values, and writes the wanted logits one after the other to `logits`; returns how many rows
  // want them. Nothing if the pass was abandoned: its loops that had not begun were left out.
  std::optional<std::size_t> run(std::span<const Row> rows, float* logits, const PassOutput& out,
                                 std::size_t first);

  // Longer passes are run in parts: bounds the scratch memory and changes no bit.
  static constexpr std::size_t kMaxRows = 256;

 private:
  // One matrix product of a loop over several.
  struct Product {
    const LinearWeights* weights;
    MatmulOutput y;
  };

  // What a row needs to know in every layer.
  struct RowState {
    CpuKvCache* cache;
    Slot slot;
    std::vector<Slot> path;  // slots by position, the row's own last
  };

  // Rows of activations ready to be multiplied: f32, and int8 where the weights are.
  struct Activations {
    AlignedBuffer<float> values;         // [rows, stride]
    AlignedBuffer<Int8Block> quantized;  // [rows, int8_blocks(stride)]
    std::int64_t count = 0;              // elements used of a row
    std::int64_t stride = 0;
  };

  // pool_.parallel_for(), but nothing once nobody wants the pass: nobody reads what it computes.
  template <class Body>
  void for_parts(std::int64_t count, std::int64_t grain, const Body& body) {
    if (!out_->is_abandoned()) pool_.parallel_for(count, grain, body);
  }

  void prepare(std::span<const Row> rows);
  void run_layer(std::int64_t layer);
  void normalize(const float* from, const std::vector<float>& weight);
  void quantize(Activations& x, std::int64_t row);
  MatmulInput input(const Activations& x, std::int64_t rows) const;
  void multiply(std::span<const Product> products, const MatmulInput& x);
  void place_heads(const CpuLayer& layer, std::int64_t index);
  void place_row(const CpuLayer& layer, std::int64_t index, std::int64_t row);
  void place_head(const std::vector<float>& norm, float* from, std::int64_t row, float* to) const;
  void attend(const CpuLayer& layer, std::int64_t index);
  void attend_task(std::int64_t index, std::int64_t window, std::int64_t row, std::int64_t head);
  void feed_forward(const CpuLayer& layer);
  void show(std::span<const Row> rows, std::int32_t layer, LayerTap& tap, std::size_t first);
  std::size_t write_logits(std::span<const Row> rows, float* logits);

  // Constant after construction.
  const CpuWeights& weights_;
  const ModelConfig& config_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const Rope rope_;
  const std::int64_t heads_;
  const std::int64_t kv_heads_;
  const std::int64_t head_dim_;
  const std::int64_t head_stride_;    // pad_to_lanes(head_dim)
  const std::int64_t hidden_stride_;  // pad_to_lanes(hidden)
  const std::int64_t query_size_;     // heads * head_dim
  const std::int64_t kv_size_;        // kv_heads * head_dim
  const float epsilon_;               // of every RMS norm

  // The current pass.
  const PassOutput* out_ = nullptr;
  std::int64_t rows_ = 0;
  std::vector<RowState> states_;         // [at least rows]
  AlignedBuffer<float> cos_;             // [rows, head_dim / 2]
  AlignedBuffer<float> sin_;             // [rows, head_dim / 2]
  AlignedBuffer<float> hidden_;          // [rows, hidden_stride]: the residual stream
  Activations normed_;                   // [rows, hidden]
  AlignedBuffer<float> queries_flat_;    // [rows, query_size]
  AlignedBuffer<float> keys_flat_;       // [rows, kv_size]
  AlignedBuffer<float> values_flat_;     // [rows, kv_size]
  AlignedBuffer<float> queries_;         // [rows, heads, head_stride]
  AlignedBuffer<float> attended_heads_;  // [rows, heads, head_stride]
  Activations attended_;                 // [rows, query_size]
  Activations gate_;                     // [rows, intermediate]
  AlignedBuffer<float> up_;              // [rows, pad_to_lanes(intermediate)]
  std::vector<float> shown_;             // [rows that want logits, hidden]: for the tap
};

}  // namespace outrider
