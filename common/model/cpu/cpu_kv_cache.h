// Keys and values of one sequence for the cpu backend: f32, one address per layer, slot and head.
//
//   keys and values: [layers][capacity slots][kv_heads][head_stride], head_stride = head_dim padded
//   to 16 with zeros. Memory is taken from the system as slots are first used.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "common/model/cpu/anonymous_memory.h"
#include "common/model/model.h"

namespace outrider {

class CpuKvCache final : public KvCache {
 public:
  // slot_stride: floats of one slot, kv_heads * head_stride. memory: bytes_needed() of it, zero.
  // `owner` tells the caches of one model from those of another.
  CpuKvCache(const void* owner, std::int64_t slot_stride, std::int32_t capacity,
             AnonymousMemory memory)
      : KvCache(capacity),
        owner_(owner),
        plane_(slot_stride * capacity),
        memory_(std::move(memory)),
        pass_rows_(static_cast<std::size_t>(capacity), -1) {}

  static std::int64_t bytes_needed(std::int64_t layers, std::int64_t slot_stride,
                                   std::int32_t capacity) {
    return 2 * layers * slot_stride * capacity * static_cast<std::int64_t>(sizeof(float));
  }

  const void* owner() const { return owner_; }

  // Slot 0, head 0 of a layer; slot s lies at s * slot_stride.
  float* keys(std::int64_t layer) { return memory_.as<float>() + 2 * layer * plane_; }
  float* values(std::int64_t layer) { return keys(layer) + plane_; }

  // By slot, the row of the pass being checked that fills it, or -1. All -1 between passes.
  std::vector<std::int32_t>& pass_rows() { return pass_rows_; }

 private:
  const void* owner_;
  std::int64_t plane_;  // floats of the keys, or the values, of one layer
  AnonymousMemory memory_;
  std::vector<std::int32_t> pass_rows_;
};

}  // namespace outrider
