// One pass of the torch backend, tile by tile. Includes ATen: for the torch backend's own files.
//
// A tile's whole work is queued on a GPU at once: its inputs are sent before the first layer, so
// that the host never waits in between. Meanwhile the host passes tapped layers' hidden states on
// as their copies arrive: exits cost the GPU only these copies.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/engine/model/model.h"
#include "common/engine/model/row_check.h"
#include "common/engine/model/torch/host_copies.h"
#include "common/engine/model/torch/torch_weights.h"

namespace outrider {

// keys and values: [layers][cells, kv_heads, head_dim] f32.
class TorchKvPages final : public KvPages {
 public:
  TorchKvPages(const void* model, std::int32_t count) : KvPages(model, count) {}

  void copy(KvCell from, KvCell to, std::int32_t rows) override;

  std::vector<at::Tensor> keys;
  std::vector<at::Tensor> values;
};

class TorchPass final {
 public:
  // copies: for a device that computes while copies are made; null: hidden states are shown in
  // place.
  TorchPass(const ModelConfig& config, TorchWeights weights, at::Device device,
            std::unique_ptr<HostCopies> copies);

  // The most rows of one tile. A parent's row is in the same tile or an earlier one.
  std::size_t tile_rows() const { return tile_rows_; }

  // The tap of this tile's hidden states, and the number of earlier rows that want logits.
  struct Tapping {
    LayerTap* tap = nullptr;
    std::size_t first = 0;
  };

  // Computes 1 to tile_rows() rows, fills their keys and values, and returns the logits of those
  // that want them, f32 on the cpu: [rows that want logits, vocab].
  at::Tensor run(std::span<const Row> rows, const Tapping& tapping);

 private:
  // Neighbouring rows of one cache.
  struct CacheRows {
    TorchKvPages* pages;
    std::int64_t from, count;
    at::Tensor cells;                // [count]
    std::vector<at::Tensor> tables;  // slot_table() by place in windows_
  };
  struct ShownLayer {
    std::int32_t layer;
    at::Tensor values;  // [rows that want logits, hidden] f32
  };

  void place(std::span<const Row> rows);
  void fill_rope(std::span<const Row> rows);
  at::Tensor to_device(const at::Tensor& x) const;
  at::Tensor embed(std::span<const Row> rows) const;
  void run_layer(std::size_t index, at::Tensor& x) const;
  void show(const at::Tensor& x, std::int32_t layer, const Tapping& tapping);
  void hand_over(const Tapping& tapping);
  void show_to_tap(const ShownLayer& shown, const float* values, const Tapping& tapping) const;
  at::Tensor attend(const TorchLayer& layer, std::size_t index, const at::Tensor& x) const;
  at::Tensor apply(const TorchLinear& linear, const at::Tensor& x) const;
  at::Tensor normalize(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor rotate(const at::Tensor& heads) const;

  const ModelConfig& config_;
  const TorchWeights weights_;
  const at::Device device_;
  const std::size_t tile_rows_;
  const std::vector<float> frequencies_;
  const std::unique_ptr<HostCopies> copies_;
  std::vector<Position> windows_;       // windows of the layers, without repeats
  std::vector<std::size_t> window_at_;  // by layer: its index in windows_

  // The inputs of the tile: paths [rows][position], cos and sin [tile, 1, head_dim / 2].
  std::vector<std::vector<Slot>> paths_;
  std::vector<CacheRows> cache_rows_;
  at::Tensor wanted_;  // [rows that want logits] i64: their places
  std::vector<ShownLayer> shown_;
  at::Tensor cos_;
  at::Tensor sin_;
};

}  // namespace outrider
