// Provides a pass with the weights of its layers, one layer after the other: from memory, or from a
// disk that is read during the pass.
//
//   for (i = 0; i < num_layers; ++i) {
//     layer = *store.acquire(i);
//     store.choose_experts(i, {3, 8});       // in a layer with experts
//     expert = *store.acquire_expert(i, 3);
//   }
//   head = *store.acquire_head();
//   store.end_pass();
//
// A pass acquires each layer once in rising order, then the output matrix if a row wants logits. An
// abandoned pass may end after any layer. A layer may be used until the next layer is acquired,
// except its experts: each of them is acquired, and may be used until the next call.
//
// Thread rule: the thread that runs passes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_weights.h"

namespace outrider {

class LayerStore {
 public:
  virtual ~LayerStore() = default;

  // Blocks until the layer is available. A read error fails the pass.
  virtual Result<const CpuLayer*> acquire(std::int64_t layer) = 0;
  // Experts of the acquired layer that have rows, by rising id; they are acquired in this order.
  // Again for each group of rows.
  virtual void choose_experts(std::int64_t layer, std::span<const std::int32_t> experts) = 0;
  virtual Result<const CpuExpert*> acquire_expert(std::int64_t layer, std::int32_t expert) = 0;
  virtual Result<const LinearWeights*> acquire_head() = 0;
  virtual void end_pass() = 0;
  // The memory to which layers are read anew in each pass, the same in all passes; this owns it.
  // Empty: all layers stay in memory.
  virtual std::span<std::byte> buffers() { return {}; }
};

// The weights of a pass, without the layers and the output matrix of `weights`, which come from
// `layers`. Both outlive the pass and its logits on demand.
struct PassModel {
  const CpuWeights& weights;
  LayerStore& layers;
};

// All of a model's layers in memory.
class ResidentLayers final : public LayerStore {
 public:
  // weights outlive this.
  explicit ResidentLayers(const CpuWeights& weights) : weights_(weights) {}

  Result<const CpuLayer*> acquire(std::int64_t layer) override {
    return &weights_.layers[static_cast<std::size_t>(layer)];
  }
  void choose_experts(std::int64_t, std::span<const std::int32_t>) override {}
  Result<const CpuExpert*> acquire_expert(std::int64_t layer, std::int32_t expert) override {
    return &weights_.layers[static_cast<std::size_t>(layer)]
                .experts[static_cast<std::size_t>(expert)];
  }
  Result<const LinearWeights*> acquire_head() override { return &weights_.head; }
  void end_pass() override {}

 private:
  const CpuWeights& weights_;
};

}  // namespace outrider
