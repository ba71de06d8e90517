// The memory for keys and values of the cpu backend, in f32 or bf16.
//
//   [pages][layers][keys, values][kv_heads][64 rows][head_stride]
//
// head_stride is head_dim padded to 16 with zeros. A head of a page is contiguous, so that a long
// context is read in streams; a page is too, so that the system gives memory page by page as they
// are first used.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/mutex.h"
#include "common/engine/model/cpu/anonymous_memory.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/format/dtype.h"
#include "common/engine/model/kv_pages.h"

namespace outrider {

struct KvLayout {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_stride = 0;
  bool is_bf16 = false;

  std::int64_t element_bytes() const { return is_bf16 ? 2 : 4; }
  // In elements, as all of these.
  std::int64_t head_elements() const { return kKvPageSlots * head_stride; }
  std::int64_t page_stride() const { return 2 * layers * kv_heads * head_elements(); }
  std::int64_t key_heads(std::int64_t layer) const { return 2 * layer * kv_heads; }
  std::int64_t value_heads(std::int64_t layer) const { return (2 * layer + 1) * kv_heads; }

  std::int64_t page_bytes() const { return page_stride() * element_bytes(); }
};

// The memory of the last cache that is gone, for the next of the same size and layout: so that an
// answer at another level of a model does not wait for the system to clear memory. Nobody sees what
// was in it, as rows are written before they are seen, and padding stays zero. Any thread.
class SpareKvMemory final {
 public:
  static constexpr std::int64_t kMaxBytes = std::int64_t{128} << 20;  // more is not kept

  // Empty: there is none of so many bytes.
  AnonymousMemory take(std::int64_t bytes) {
    const MutexLock lock(mu_);
    if (bytes != bytes_) return {};
    bytes_ = 0;
    return std::move(memory_);
  }
  void give(AnonymousMemory memory, std::int64_t bytes) {
    if (bytes > kMaxBytes) return;
    const MutexLock lock(mu_);
    memory_ = std::move(memory);
    bytes_ = bytes;
  }

 private:
  Mutex mu_;
  AnonymousMemory memory_ OUTRIDER_GUARDED_BY(mu_);
  std::int64_t bytes_ OUTRIDER_GUARDED_BY(mu_) = 0;  // 0: none
};

class CpuKvPages final : public KvPages {
 public:
  // memory: of `count` pages; where it was never used, zero. It goes to `spare` in the end.
  CpuKvPages(const void* model, const KvLayout& layout, std::int32_t count, AnonymousMemory memory,
             std::shared_ptr<SpareKvMemory> spare)
      : KvPages(model, count),
        layout_(layout),
        bytes_(count * layout.page_bytes()),
        memory_(std::move(memory)),
        spare_(std::move(spare)) {}
  ~CpuKvPages() override { spare_->give(std::move(memory_), bytes_); }

  const KvLayout& layout() const { return layout_; }

  // Cell 0 of a head of a layer.
  const std::byte* keys(std::int64_t layer, std::int64_t head) const {
    return at(0, layout_.key_heads(layer) + head);
  }
  const std::byte* values(std::int64_t layer, std::int64_t head) const {
    return at(0, layout_.value_heads(layer) + head);
  }

  // One head of a row's key or value, [count] f32, count <= head_stride.
  void store_key(std::int64_t layer, KvCell cell, std::int64_t head, const float* from,
                 std::int64_t count) {
    store(at(cell, layout_.key_heads(layer) + head), from, count);
  }
  void store_value(std::int64_t layer, KvCell cell, std::int64_t head, const float* from,
                   std::int64_t count) {
    store(at(cell, layout_.value_heads(layer) + head), from, count);
  }

  void copy(KvCell from, KvCell to, std::int32_t rows) override {
    const std::int64_t bytes = rows * layout_.head_stride * layout_.element_bytes();
    for (std::int64_t head = 0; head < 2 * layout_.layers * layout_.kv_heads; ++head) {
      std::memcpy(at(to, head), at(from, head), static_cast<std::size_t>(bytes));
    }
  }

 private:
  // head: among those of all layers in a page.
  std::byte* at(KvCell cell, std::int64_t head) const {
    const std::int64_t elements = cell / kKvPageSlots * layout_.page_stride() +
                                  head * layout_.head_elements() +
                                  cell % kKvPageSlots * layout_.head_stride;
    return memory_.as<std::byte>() + elements * layout_.element_bytes();
  }

  void store(std::byte* to, const float* from, std::int64_t count) const {
    if (layout_.is_bf16) {
      std::transform(from, from + count, reinterpret_cast<std::uint16_t*>(to), to_bf16);
    } else {
      std::copy_n(from, count, reinterpret_cast<float*>(to));
    }
  }

  const KvLayout layout_;
  const std::int64_t bytes_;
  AnonymousMemory memory_;
  const std::shared_ptr<SpareKvMemory> spare_;
};

}  // namespace outrider
