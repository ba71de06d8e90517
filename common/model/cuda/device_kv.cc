// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/device_kv.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace outrider::cuda {

Result<std::shared_ptr<DeviceKvMemory>> DeviceKvMemory::make(std::shared_ptr<DeviceApi> api,
                                                             const KvLayout& layout,
                                                             std::int64_t pages) {
  pages = std::min<std::int64_t>(pages, KvPages::kMost);
  if (pages < 2) {
    return resource_exhausted("keys and values: not even one page of " +
                              std::to_string(layout.page_bytes() >> 10) +
                              " KiB fits. Remedy: a smaller model, or --kv-dtype bf16");
  }
  OUTRIDER_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::make(*api, MemoryKind::kDevice,
                                                                    pages * layout.page_bytes()));
  return std::shared_ptr<DeviceKvMemory>(new DeviceKvMemory(
      std::move(api), std::move(memory), layout, static_cast<std::int32_t>(pages)));
}

DeviceKvMemory::DeviceKvMemory(std::shared_ptr<DeviceApi> api, DeviceMemory memory,
                               const KvLayout& layout, std::int32_t pages)
    : api_(std::move(api)),
      memory_(std::move(memory)),
      layout_(layout),
      stream_(api_->new_stream()),
      pages_(pages),
      free_{{1, pages - 1}} {}

KvPlanes DeviceKvMemory::planes(std::int64_t layer) const {
  const std::int64_t head = layout_.head_elements() * layout_.element_bytes();
  return {memory_.data() + layout_.key_heads(layer) * head,
          memory_.data() + layout_.value_heads(layer) * head, layout_.is_bf16,
          layout_.page_stride()};
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

std::byte* DeviceKvMemory::at(KvCell cell) const {
  const std::int64_t elements =
      cell / kKvPageSlots * layout_.page_stride() + cell % kKvPageSlots * layout_.head_stride;
  return memory_.data() + elements * layout_.element_bytes();
}

void DeviceKvMemory::copy(KvCell from, KvCell to, std::int32_t rows) {
  api_->copy(at(to), at(from), rows * layout_.head_stride * layout_.element_bytes(),
             layout_.head_elements() * layout_.element_bytes(),
             2 * layout_.layers * layout_.kv_heads, stream_);
}

}  // namespace outrider::cuda
