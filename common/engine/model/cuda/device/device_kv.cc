// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_kv.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "common/engine/model/cuda/device/device_room.h"

namespace outrider::cuda {

namespace {

// On a device that shares the host's memory, which gives it page by page.
constexpr std::int64_t kHostKvBytes = std::int64_t{1} << 30;

}  // namespace

Result<std::shared_ptr<DeviceKvMemory>> DeviceKvMemory::make(std::shared_ptr<DeviceApi> api,
                                                             const KvLayout& layout,
                                                             const DeviceSplit& split,
                                                             std::int64_t bytes) {
  std::vector<Part> parts;
  std::int64_t pages = KvPages::kMost;
  if (bytes > 0) pages = std::min(pages, bytes / layout.page_bytes());
  for (int device = 0; device < split.devices(); ++device) {
    Part& part = parts.emplace_back();
    part.layout = layout;
    part.layout.kv_heads = split.kv_heads(device).count();
    part.stream = api->new_stream(device);
    if (part.layout.kv_heads == 0) continue;
    const FreeMemory free = api->free_memory(device);
    const bool is_bounded = free.is_shared || free.on_device > 0;
    if (bytes > 0 && !is_bounded) continue;  // the host's, which it gives page by page
    const std::int64_t room =
        is_bounded ? room_for_kv(free) : kHostKvBytes / layout.kv_heads * part.layout.kv_heads;
    pages = std::min(pages, room / part.layout.page_bytes());
  }
  if (pages < 2) {
    return resource_exhausted("keys and values: not even one page of " +
                              std::to_string(layout.page_bytes() >> 10) +
                              " KiB fits: " + words_of(api->free_memory()) +
                              ". Remedy: a smaller model, or --kv-dtype bf16");
  }
  for (int device = 0; device < split.devices(); ++device) {
    Part& part = parts[static_cast<std::size_t>(device)];
    if (part.layout.kv_heads == 0) continue;
    OUTRIDER_ASSIGN_OR_RETURN(
        part.memory,
        DeviceMemory::make(*api, MemoryKind::kDevice, pages * part.layout.page_bytes(), device));
  }
  return std::shared_ptr<DeviceKvMemory>(
      new DeviceKvMemory(std::move(api), std::move(parts), static_cast<std::int32_t>(pages)));
}

KvPlanes DeviceKvMemory::planes(int device, std::int64_t layer) const {
  const Part& part = parts_[static_cast<std::size_t>(device)];
  const std::int64_t head = part.layout.head_elements() * part.layout.element_bytes();
  return {part.memory.data() + part.layout.key_heads(layer) * head,
          part.memory.data() + part.layout.value_heads(layer) * head, part.layout.is_bf16,
          part.layout.page_stride()};
}

Result<std::int32_t> DeviceKvMemory::take(std::int32_t count) {
  const auto at =
      std::ranges::find_if(free_, [&](const auto& range) { return range.second >= count; });
  if (at == free_.end()) {
    return resource_exhausted(std::to_string(count) + " pages of keys and values are wanted; of " +
                              std::to_string(pages_ - 1) +
                              " on the device not so many are free together. Remedy: fewer "
                              "sessions at once, or shorter contexts");
  }
  const auto [first, length] = *at;
  free_.erase(at);
  if (length > count) free_[first + count] = length - count;
  return first;
}

void DeviceKvMemory::give_back(std::int32_t first, std::int32_t count) {
  auto at = free_.emplace(first, count).first;
  if (const auto after = std::next(at); after != free_.end() && first + count == after->first) {
    at->second += after->second;
    free_.erase(after);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != first) return;
  before->second += at->second;
  free_.erase(at);
}

std::byte* DeviceKvMemory::Part::at(KvCell cell) const {
  const std::int64_t elements =
      cell / kKvPageSlots * layout.page_stride() + cell % kKvPageSlots * layout.head_stride;
  return memory.data() + elements * layout.element_bytes();
}

void DeviceKvMemory::copy(KvCell from, KvCell to, std::int32_t rows) {
  for (const Part& part : parts_) {
    const KvLayout& layout = part.layout;
    if (layout.kv_heads == 0) continue;
    const std::int64_t pitch = layout.head_elements() * layout.element_bytes();
    api_->copy(part.at(to), pitch, part.at(from), pitch,
               rows * layout.head_stride * layout.element_bytes(),
               2 * layout.layers * layout.kv_heads, part.stream);
  }
}

}  // namespace outrider::cuda
