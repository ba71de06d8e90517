// One pass of the torch backend, tile by tile. Includes ATen: for the torch backend's own files.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/model/row_check.h"
#include "common/model/torch/torch_weights.h"

namespace outrider {

// keys and values: [layers][capacity slots, kv_heads, head_dim] f32.
class TorchKvCache final : public OwnedKvCache {
 public:
  TorchKvCache(const void* owner, std::int32_t capacity) : OwnedKvCache(owner, capacity) {}

  std::vector<at::Tensor> keys;
  std::vector<at::Tensor> values;
};

class TorchPass final {
 public:
  TorchPass(const ModelConfig& config, TorchWeights weights, at::Device device);

  // The most rows of one tile. A parent's row stands in the same tile or an earlier one.
  std::size_t tile_rows() const { return tile_rows_; }

  // Who looks at this tile's hidden states, and how many rows before it want logits.
  struct Tapping {
    LayerTap* tap = nullptr;
    std::size_t first = 0;
  };

  // Computes 1 to tile_rows() rows, fills their keys and values, and returns the logits, f32 on the
  // cpu: [tile_rows(), vocab], those of padding rows without meaning.
  at::Tensor run(std::span<const Row> rows, const Tapping& tapping);

 private:
  at::Tensor embed(std::span<const Row> rows) const;
  void fill_rope(std::span<const Row> rows);
  void run_layer(std::size_t index, std::span<const Row> rows, at::Tensor& x) const;
  void show(const at::Tensor& x, std::span<const Row> rows, std::int32_t layer,
            const Tapping& tapping) const;
  at::Tensor attend(const TorchLayer& layer, std::size_t index, std::span<const Row> rows,
                    const at::Tensor& x) const;
  at::Tensor apply(const TorchLinear& linear, const at::Tensor& x) const;
  at::Tensor normalize(const at::Tensor& x, const at::Tensor& weight) const;
  at::Tensor rotate(const at::Tensor& heads) const;

  const ModelConfig& config_;
  const TorchWeights weights_;
  const at::Device device_;
  const std::size_t tile_rows_;
  const std::vector<float> frequencies_;
  // Of the tile: paths [rows][position], cos and sin [tile, 1, head_dim / 2].
  std::vector<std::vector<Slot>> paths_;
  at::Tensor cos_;
  at::Tensor sin_;
};

}  // namespace outrider
