// Keys and values in a device's memory: the pages of all sequences come from one pool.
//
//   keys and values: [layers][pages][kv_heads][64 slots][head_stride], f32 or bf16, head_stride =
//   head_dim padded to 16 with zeros. A slot of the pool is page * 64 + its place in the page.
//
// A sequence takes a page when the first of its 64 slots is used, and gives all back at its end.
//
// Thread rule: belongs to the thread that runs the model. Errors: RESOURCE_EXHAUSTED when no page
// is free. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/model/cpu/cpu_kv_cache.h"
#include "common/model/cuda/device_api.h"
#include "common/model/row_check.h"

namespace outrider::cuda {

class DeviceKvPool final {
 public:
  // pages: at least 2, the spare one included.
  static Result<std::shared_ptr<DeviceKvPool>> make(std::shared_ptr<DeviceApi> api,
                                                    std::int32_t layers, const KvLayout& layout,
                                                    std::int64_t pages);
  // Bytes of a page in all layers.
  static std::int64_t page_bytes(std::int32_t layers, const KvLayout& layout) {
    return 2 * layers * layout.page_stride() * layout.element_bytes();
  }

  KvPlanes planes(std::int64_t layer) const;
  std::int64_t pages() const { return pages_; }
  std::int64_t free_pages() const { return static_cast<std::int64_t>(free_.size()); }
  // In a page that no sequence gets: for rows that only fill up a pass.
  static constexpr std::int32_t kSpareSlot = 0;

  Result<std::int32_t> take();
  void give_back(std::int32_t page) { free_.push_back(page); }

 private:
  DeviceKvPool(std::shared_ptr<DeviceApi> api, DeviceMemory memory, const KvLayout& layout,
               std::int64_t pages);

  const std::shared_ptr<DeviceApi> api_;  // a sequence may outlive its model
  const DeviceMemory memory_;
  const KvLayout layout_;
  const std::int64_t pages_;
  std::vector<std::int32_t> free_;
};

class DeviceKvCache final : public OwnedKvCache {
 public:
  DeviceKvCache(const void* owner, std::int32_t capacity, std::shared_ptr<DeviceKvPool> pool)
      : OwnedKvCache(owner, capacity),
        pool_(std::move(pool)),
        pages_(static_cast<std::size_t>((capacity + kKvPageSlots - 1) / kKvPageSlots), -1) {}
  ~DeviceKvCache() override {
    for (const std::int32_t page : pages_) {
      if (page >= 0) pool_->give_back(page);
    }
  }

  // Takes the slot's page if it has none.
  Status reserve(Slot slot);
  // Of the pool; the slot is reserved.
  std::int32_t pool_slot(Slot slot) const {
    constexpr auto kSlots = static_cast<std::int32_t>(kKvPageSlots);
    return pages_[static_cast<std::size_t>(slot / kSlots)] * kSlots + slot % kSlots;
  }

 private:
  const std::shared_ptr<DeviceKvPool> pool_;
  std::vector<std::int32_t> pages_;  // of the pool, -1 while not used
};

}  // namespace outrider::cuda
