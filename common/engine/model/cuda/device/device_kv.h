// Keys and values in devices' memory: one allocation on each, of which each KvPages has a range of
// pages. A device has its own heads of keys (device_split.h) in all pages.
//
//   [pages][layers][keys, values][kv_heads][64 rows][head_stride], as CpuKvPages has them
//
// A cell of the memory is (first page of the range) * 64 + the cell in the KvPages, the same on all
// devices. Recorded graphs hold the memory's addresses, so it never moves.
//
// Thread rule: belongs to the thread that runs the model. Errors: RESOURCE_EXHAUSTED when no range
// is free. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_kv_pages.h"
#include "common/engine/model/cuda/device/device_api.h"
#include "common/engine/model/cuda/device/device_split.h"
#include "common/engine/model/kv_pages.h"

namespace outrider::cuda {

class DeviceKvMemory final {
 public:
  // layout: of the whole model. bytes: of all devices together, at most nine tenths of what is
  // free on each, the rest being for scratch memory; 0: that.
  static Result<std::shared_ptr<DeviceKvMemory>> make(std::shared_ptr<DeviceApi> api,
                                                      const KvLayout& layout,
                                                      const DeviceSplit& split, std::int64_t bytes);

  // That sequences can have.
  std::int32_t pages() const { return pages_ - 1; }
  // A device without heads has none.
  KvPlanes planes(int device, std::int64_t layer) const;
  // Passes and copies of rows are work of this stream of the device.
  Stream stream(int device) const { return parts_[static_cast<std::size_t>(device)].stream; }
  // In a page that no sequence gets: for rows that only fill up a pass.
  static constexpr KvCell kSpareCell = 0;

  // A range of so many pages; its first.
  Result<std::int32_t> take(std::int32_t count);
  void give_back(std::int32_t first, std::int32_t count);
  void copy(KvCell from, KvCell to, std::int32_t rows);

 private:
  // On one device.
  struct Part {
    KvLayout layout;
    Stream stream = nullptr;
    DeviceMemory memory;

    std::byte* at(KvCell cell) const;
  };

  DeviceKvMemory(std::shared_ptr<DeviceApi> api, std::vector<Part> parts, std::int32_t pages)
      : api_(std::move(api)), parts_(std::move(parts)), pages_(pages), free_{{1, pages - 1}} {}

  const std::shared_ptr<DeviceApi> api_;  // a sequence may outlive its model
  const std::vector<Part> parts_;
  const std::int32_t pages_;
  std::map<std::int32_t, std::int32_t> free_;  // ranges: their first pages and lengths
};

class DeviceKvPages final : public KvPages {
 public:
  // The range is taken.
  DeviceKvPages(const void* model, std::int32_t count, std::shared_ptr<DeviceKvMemory> memory,
                std::int32_t first)
      : KvPages(model, count), memory_(std::move(memory)), first_(first) {}
  ~DeviceKvPages() override { memory_->give_back(first_, count()); }

  // A cell of these pages as one of the memory.
  KvCell in_memory(KvCell cell) const { return first_ * kRows + cell; }
  void copy(KvCell from, KvCell to, std::int32_t rows) override {
    memory_->copy(in_memory(from), in_memory(to), rows);
  }

 private:
  const std::shared_ptr<DeviceKvMemory> memory_;
  const std::int32_t first_;
};

}  // namespace outrider::cuda
