// One pass of a decoder-only transformer over any rows, on the cpu kernels. Its config says which
// kinds of blocks it has (BlockKinds in common/engine/model/format/config.h).
//
// All rows of a pass go through one layer before the next is acquired, so that layers on a disk are
// read once a pass (layer_store.h). Within a layer, rows are computed in groups of at most
// kMaxRows; a pruner may drop some between two layers (pass_rows.h). Each stage is a parallel loop
// whose items own disjoint outputs, so neither the number of threads nor the split changes a bit. A
// row depends on other rows only through the keys and values of its own path
// (docs/row-invariance.md).
//
// Thread rule: one thread calls run(); the pool's threads work inside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/attention_stage.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/feed_forward.h"
#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/layer_store.h"
#include "common/engine/model/cpu/pass_logits.h"
#include "common/engine/model/cpu/pass_loops.h"
#include "common/engine/model/cpu/pass_products.h"
#include "common/engine/model/cpu/pass_rows.h"
#include "common/engine/model/model.h"

namespace outrider {

class CpuPass final {
 public:
  // is_quantized: some matrices are. All outlive this.
  CpuPass(const ModelConfig& config, bool is_quantized, const Kernels& kernels, ThreadPool& pool);

  // model: that config's, or a level of it (elastic_table.h). rows: checked; their caches are in
  // CpuKvPages of the model. out: its logits have room for the wanted rows. Fills keys and values,
  // and writes the wanted logits one after the other, or offers them on demand until the next call.
  // Errors: CANCELLED if the pass was abandoned, which skips the remaining loops; those of the
  // layers.
  Status run(const PassModel& model, std::span<const Row> rows, PassOutput& out);

  // Memory that a pass of so many rows needs in addition to weights, keys, values and logits.
  static std::int64_t scratch_bytes(const ModelConfig& config, std::int64_t rows);

  // Most rows computed together within a layer. Bounds the scratch memory and changes no bit.
  static constexpr std::int64_t kMaxRows = 256;

 private:
  Status prepare(const CpuWeights& weights, std::span<const Row> rows);
  Status run_layers(LayerStore& layers, PassOutput& out);
  bool prune(std::int32_t index, PassOutput& out);
  Status run_layer(LayerStore& layers, const CpuLayer& layer, std::int64_t index, bool other_rows);
  Status run_part(LayerStore& layers, const CpuLayer& layer, std::int64_t index);
  Status embed(const CpuWeights& weights, const Row& row, float* to);
  void run_attention(const CpuLayer& layer, std::int64_t index);
  void normalize(const NormVectors& norm);
  MatmulOutput branch();
  void add_branch(const std::vector<float>& norm);

  // Constant after construction.
  const ModelConfig& config_;
  const Kernels& kernels_;
  const std::int64_t hidden_stride_;  // pad_to_lanes(hidden)
  const float epsilon_;               // of every norm
  const bool adds_directly_;          // what a block computes is added to the residual stream as is

  // The current pass.
  PassLoops loops_;
  AttentionStage attention_;
  PassRows pass_rows_;  // the pass's rows and their residual stream
  PassProducts products_;
  FeedForward feed_forward_;
  PassLogits logits_;

  // The rows of the current group, at most kMaxRows.
  std::int64_t rows_ = 0;
  float* hidden_ = nullptr;      // their residual stream: [rows, hidden_stride]
  Activations normed_;           // [rows, hidden]
  Activations attended_;         // [rows, heads * head_dim], as many as the layer has
  AlignedBuffer<float> branch_;  // [rows, hidden_stride], unless adds_directly_
  std::vector<float> position_;  // [hidden], one row's learned position
};

}  // namespace outrider
