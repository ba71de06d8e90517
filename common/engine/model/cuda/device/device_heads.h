// Heads on hidden states (layer_heads.h), such as early exits, on the first device: beside a pass's
// later layers, with the bits of the CPU's heads. Their logits come to the host instead of being
// computed there.
//
// Thread rule: one thread. Ownership: the device outlives this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/kernels/layer_heads.h"
#include "common/engine/model/cuda/device/device_api.h"

namespace outrider::cuda {

class DeviceHeads final {
 public:
  // hidden: the model's width; max_rows: of one pass. heads: read during the call only. Errors:
  // RESOURCE_EXHAUSTED if weights or scratch memory do not fit; UNIMPLEMENTED for other blocks.
  static Result<std::unique_ptr<DeviceHeads>> make(DeviceApi& api, const LayerHeads& heads,
                                                   std::int64_t hidden, std::int64_t max_rows);

  // Whether the layer has a head that computes so many rows. Those of a pass with very many are
  // left to the host, as their logits would take much memory.
  bool computes(std::int32_t layer, std::int64_t rows) const;
  // Puts the layer's head into the first device's stream, and the way of its logits to the host.
  // hidden: [rows, pad_to_lanes(hidden)] on the device, which the head overwrites.
  void record(std::int32_t layer, float* hidden, std::int64_t rows, Stream stream);

  // [rows, tokens] on the host, once the stream has passed the head.
  const float* logits(std::int32_t layer) const { return heads_.at(layer).host.as<float>(); }
  std::int64_t tokens(std::int32_t layer) const { return heads_.at(layer).output.outputs; }

 private:
  struct Head {
    const float* norm = nullptr;
    WeightMatrix down, up, output;
    std::int64_t max_rows = 0;
    DeviceMemory inner;  // [max_rows, pad_to_lanes(inner)], zero behind its rows
    DeviceMemory host;   // [max_rows, tokens]
  };

  explicit DeviceHeads(DeviceApi& api, std::int64_t hidden);
  Status upload(const LayerHeads& heads);
  Status allocate(std::int64_t max_rows);
  void adapt(const Head& head, float* hidden, std::int64_t rows, Stream stream);

  DeviceApi& api_;
  const std::int64_t hidden_, stride_;
  float epsilon_ = 0;
  const float* final_norm_ = nullptr;
  std::vector<DeviceMemory> weights_;
  std::map<std::int32_t, Head> heads_;  // by layer
  // Scratch of the head at hand: the stream runs one after the other.
  DeviceMemory normed_;     // [rows, stride]
  DeviceMemory ones_;       // [rows, pad_to_lanes(inner)] of the widest
  DeviceMemory quantized_;  // [rows] of QuantizedGroups
  DeviceMemory logits_;     // [rows, tokens] of the head with the most
};

}  // namespace outrider::cuda
