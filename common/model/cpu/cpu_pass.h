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
#include "common/model/cpu/attention_stage.h"
#include "common/model/cpu/cpu_weights.h"
#include "common/model/cpu/kernels/aligned_buffer.h"
#include "common/model/cpu/kernels/kernels.h"
#include "common/model/cpu/pass_loops.h"
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

  // Rows of activations ready to be multiplied: f32, and int8 where the weights are quantised.
  struct Activations {
    AlignedBuffer<float> values;         // [rows, stride]
    AlignedBuffer<std::byte> quantized;  // [rows, quantized_bytes]
    std::int64_t count = 0;              // elements used of a row
    std::int64_t stride = 0;
    std::int64_t quantized_bytes = 0;  // of a row, see QuantizedGroup
  };

  void prepare(std::span<const Row> rows);
  void run_layer(std::int64_t layer);
  void normalize(const float* from, const std::vector<float>& weight);
  void quantize(Activations& x, std::int64_t row);
  void quantize_rows(Activations& x);
  MatmulInput input(const Activations& x, std::int64_t rows) const;
  void multiply(std::span<const Product> products, const MatmulInput& x);
  void feed_forward(const CpuLayer& layer);
  void show(std::span<const Row> rows, std::int32_t layer, LayerTap& tap, std::size_t first);
  std::size_t write_logits(std::span<const Row> rows, float* logits);

  // Constant after construction.
  const CpuWeights& weights_;
  const ModelConfig& config_;
  const Kernels& kernels_;
  const std::int64_t hidden_stride_;  // pad_to_lanes(hidden)
  const float epsilon_;               // of every RMS norm

  // The current pass.
  PassLoops loops_;
  AttentionStage attention_;
  std::int64_t rows_ = 0;
  AlignedBuffer<float> hidden_;  // [rows, hidden_stride]: the residual stream
  Activations normed_;           // [rows, hidden]
  Activations attended_;         // [rows, heads * head_dim]
  Activations gate_;             // [rows, intermediate]
  AlignedBuffer<float> up_;      // [rows, pad_to_lanes(intermediate)]
  std::vector<float> shown_;     // [rows that want logits, hidden]: for the tap
};

}  // namespace outrider
