// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/device_kv.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace outrider::cuda {

Result<std::shared_ptr<DeviceKvPool>> DeviceKvPool::make(std::shared_ptr<DeviceApi> api,
                                                         std::int32_t layers,
                                                         const KvLayout& layout,
                                                         std::int64_t pages) {
  // Slots are numbers of 32 bits.
  constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max() / kKvPageSlots;
  pages = std::min(pages, kMaxPages);
  if (pages < 2) {
    return resource_exhausted("keys and values: not even one page of " +
                              std::to_string(page_bytes(layers, layout) >> 10) +
                              " KiB fits. Remedy: a smaller model, or --kv-dtype bf16");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      DeviceMemory memory,
      DeviceMemory::make(*api, MemoryKind::kDevice, pages * page_bytes(layers, layout)));
  return std::shared_ptr<DeviceKvPool>(
      new DeviceKvPool(std::move(api), std::move(memory), layout, pages));
}

DeviceKvPool::DeviceKvPool(std::shared_ptr<DeviceApi> api, DeviceMemory memory,
                           const KvLayout& layout, std::int64_t pages)
    : api_(std::move(api)), memory_(std::move(memory)), layout_(layout), pages_(pages) {
  for (std::int64_t page = pages - 1; page > kSpareSlot / kKvPageSlots; --page) {
    free_.push_back(static_cast<std::int32_t>(page));
  }
}

KvPlanes DeviceKvPool::planes(std::int64_t layer) const {
  const std::int64_t plane = pages_ * layout_.page_stride() * layout_.element_bytes();
  std::byte* const keys = memory_.data() + 2 * layer * plane;
  return {keys, keys + plane, layout_.is_bf16, layout_.page_stride()};
}

Result<std::int32_t> DeviceKvPool::take() {
  if (free_.empty()) {
    return resource_exhausted("all " + std::to_string(pages_ - 1) +
                              " pages of keys and values on the device are in use. Remedy: fewer "
                              "sessions at once, or shorter contexts");
  }
  const std::int32_t page = free_.back();
  free_.pop_back();
  return page;
}

Status DeviceKvCache::reserve(Slot slot) {
  std::int32_t& page = pages_[static_cast<std::size_t>(slot / kKvPageSlots)];
  if (page >= 0) return {};
  OUTRIDER_ASSIGN_OR_RETURN(page, pool_->take());
  return {};
}

}  // namespace outrider::cuda
