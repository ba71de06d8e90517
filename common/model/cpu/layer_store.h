// Where a pass gets the weights of its layers from, one layer after the other: from memory, or from
// a disk that is read while the pass goes on.
//
//   for (i = 0; i < num_layers; ++i) { layer = *store.acquire(i); .. compute .. }
//   head = *store.acquire_head();
//   store.end_pass();
//
// A pass acquires layers in rising order and each once, then the output matrix if a row wants
// logits. An abandoned pass ends where it is. What was acquired may be used until the next call.
//
// Thread rule: the thread that runs passes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/model/cpu/cpu_weights.h"

namespace outrider {

class LayerStore {
 public:
  virtual ~LayerStore() = default;

  // Blocks until the layer is there. Errors: those of reading it; the pass then fails with them.
  virtual Result<const CpuLayer*> acquire(std::int64_t layer) = 0;
  virtual Result<const LinearWeights*> acquire_head() = 0;
  virtual void end_pass() = 0;
};

// All of a model's layers in memory.
class ResidentLayers final : public LayerStore {
 public:
  // weights outlive this.
  explicit ResidentLayers(const CpuWeights& weights) : weights_(weights) {}

  Result<const CpuLayer*> acquire(std::int64_t layer) override {
    return &weights_.layers[static_cast<std::size_t>(layer)];
  }
  Result<const LinearWeights*> acquire_head() override { return &weights_.head; }
  void end_pass() override {}

 private:
  const CpuWeights& weights_;
};

}  // namespace outrider
