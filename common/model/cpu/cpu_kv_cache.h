// Keys and values of one sequence for the cpu backend, in f32 or bf16.
//
//   keys and values: [layers][pages][kv_heads][64 slots][head_stride], head_stride = head_dim
//   padded to 16 with zeros. Slot s is in page s / 64. A head of a page is contiguous, so that a
//   long context is read in streams. The system allocates memory when slots are first used.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/model/cpu/anonymous_memory.h"
#include "common/model/cpu/kernels/kernels.h"
#include "common/model/format/dtype.h"
#include "common/model/row_check.h"

namespace outrider {

struct KvLayout {
  std::int64_t kv_heads = 0;
  std::int64_t head_stride = 0;
  bool is_bf16 = false;

  std::int64_t element_bytes() const { return is_bf16 ? 2 : 4; }
  // In elements.
  std::int64_t page_stride() const { return kv_heads * kKvPageSlots * head_stride; }
  std::int64_t offset(std::int64_t slot, std::int64_t head) const {
    const std::int64_t page = slot / kKvPageSlots, at = slot % kKvPageSlots;
    return page * page_stride() + (head * kKvPageSlots + at) * head_stride;
  }
  // Bytes of the keys, or the values, of one layer.
  std::int64_t plane_bytes(std::int32_t capacity) const {
    return (capacity + kKvPageSlots - 1) / kKvPageSlots * page_stride() * element_bytes();
  }
};

class CpuKvCache final : public OwnedKvCache {
 public:
  // memory: bytes_needed() bytes, zero.
  CpuKvCache(const void* owner, const KvLayout& layout, std::int32_t capacity,
             AnonymousMemory memory)
      : OwnedKvCache(owner, capacity),
        layout_(layout),
        plane_bytes_(layout.plane_bytes(capacity)),
        memory_(std::move(memory)) {}

  static std::int64_t bytes_needed(std::int64_t layers, const KvLayout& layout,
                                   std::int32_t capacity) {
    return 2 * layers * layout.plane_bytes(capacity);
  }

  const KvLayout& layout() const { return layout_; }

  // Slot 0 of a head of a layer.
  const std::byte* keys(std::int64_t layer, std::int64_t head) const {
    return plane(2 * layer) + layout_.offset(0, head) * layout_.element_bytes();
  }
  const std::byte* values(std::int64_t layer, std::int64_t head) const {
    return plane(2 * layer + 1) + layout_.offset(0, head) * layout_.element_bytes();
  }

  // One head of a slot's key or value, [count] f32, count <= head_stride.
  void store_key(std::int64_t layer, std::int64_t slot, std::int64_t head, const float* from,
                 std::int64_t count) {
    store(plane(2 * layer), slot, head, from, count);
  }
  void store_value(std::int64_t layer, std::int64_t slot, std::int64_t head, const float* from,
                   std::int64_t count) {
    store(plane(2 * layer + 1), slot, head, from, count);
  }

 private:
  std::byte* plane(std::int64_t index) const {
    return memory_.as<std::byte>() + index * plane_bytes_;
  }

  void store(std::byte* plane, std::int64_t slot, std::int64_t head, const float* from,
             std::int64_t count) const {
    std::byte* to = plane + layout_.offset(slot, head) * layout_.element_bytes();
    if (layout_.is_bf16) {
      std::transform(from, from + count, reinterpret_cast<std::uint16_t*>(to), to_bf16);
    } else {
      std::copy_n(from, count, reinterpret_cast<float*>(to));
    }
  }

  const KvLayout layout_;
  const std::int64_t plane_bytes_;
  AnonymousMemory memory_;
};

}  // namespace outrider
