// Keys and values of one sequence for the cpu backend: f32, one address per layer, slot and head.
//
//   keys and values: [layers][capacity slots][kv_heads][head_stride], head_stride = head_dim padded
//   to 16 with zeros. Memory is taken from the system as slots are first used.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include "common/model/cpu/anonymous_memory.h"
#include "common/model/row_check.h"

namespace outrider {

class CpuKvCache final : public OwnedKvCache {
 public:
  // slot_stride: floats of one slot, kv_heads * head_stride. memory: bytes_needed() of it, zero.
  CpuKvCache(const void* owner, std::int64_t slot_stride, std::int32_t capacity,
             AnonymousMemory memory)
      : OwnedKvCache(owner, capacity), plane_(slot_stride * capacity), memory_(std::move(memory)) {}

  static std::int64_t bytes_needed(std::int64_t layers, std::int64_t slot_stride,
                                   std::int32_t capacity) {
    return 2 * layers * slot_stride * capacity * static_cast<std::int64_t>(sizeof(float));
  }

  // Slot 0, head 0 of a layer; slot s lies at s * slot_stride.
  float* keys(std::int64_t layer) { return memory_.as<float>() + 2 * layer * plane_; }
  float* values(std::int64_t layer) { return keys(layer) + plane_; }

 private:
  std::int64_t plane_;  // floats of the keys, or the values, of one layer
  AnonymousMemory memory_;
};

}  // namespace outrider
