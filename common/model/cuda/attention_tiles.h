// What the kernels of attention share: how much of it a thread block takes, and from where it reads
// keys and values.
//
// Included by files that hold kernels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/model/cuda/device.h"
#include "common/model/cuda/kernels.h"

namespace outrider::cuda {

inline constexpr int kBlock = kKvPageSlots;
inline constexpr int kPartBlocks = kAttentionPart / kBlock;
inline constexpr float kUnseen = -__builtin_inff();

struct AttentionBatch {
  Attention task;
  int stride;  // of a head
};

template <class T>
OUTRIDER_DEVICE float widen(T value) {
  if constexpr (sizeof(T) == 2) return widen_bf16(value);
  return value;
}

// Where one head of a slot lies, in elements.
OUTRIDER_DEVICE std::int64_t slot_offset(const AttentionBatch& p, std::int32_t slot, int head) {
  return slot / kBlock * p.task.planes.page_stride +
         static_cast<std::int64_t>(head * kBlock + slot % kBlock) * p.stride;
}

// What a thread block looks with.
struct Look {
  int head;  // of keys
  int first, count;
  int shared;  // queries of a row that share the head
  SeenRow lead;

  OUTRIDER_DEVICE Look(const AttentionBatch& p, int head, int bundle)
      : head(head),
        first(p.task.bundles[bundle].first),
        count(p.task.bundles[bundle].count),
        shared(static_cast<int>(p.task.shape.heads / p.task.shape.kv_heads)),
        lead(p.task.rows[p.task.bundles[bundle].lead]) {}

  OUTRIDER_DEVICE int row(int query) const { return (first + query) / shared; }
  OUTRIDER_DEVICE int query_head(int query) const {
    return head * shared + (first + query) % shared;
  }
};

OUTRIDER_DEVICE std::int64_t score_stride(const AttentionBatch& p) {
  return p.task.parts * kAttentionPart;
}
OUTRIDER_DEVICE float* scores_of(const AttentionBatch& p, const Look& look, int query) {
  const std::int64_t row = look.row(query) * p.task.shape.heads + look.query_head(query);
  return p.task.scores + row * score_stride(p);
}

// A thread among those that copy; those with an index below 0 do not.
struct Threads {
  int index, count;
};

// Copies elements [k, k + count) of a block's slots to shared memory, `pitch` bytes apart. slots:
// of the block's positions, -1 where the lead sees none. kPieces: of 16 bytes that a slot has room
// for; 0: as many as there are.
template <class T, int kPieces>
OUTRIDER_DEVICE void stage_slots(const AttentionBatch& p, const Look& look, const void* plane,
                                 const std::int32_t* slots, int k, int count, int pitch,
                                 Threads threads, std::byte* to) {
  const int pieces = count * static_cast<int>(sizeof(T)) / 16;
  const int each = kPieces > 0 ? kPieces : pieces;
  for (int i = threads.index; i < kBlock * each; i += threads.count) {
    const int at = i / each, piece = i % each;
    if (slots[at] < 0 || piece >= pieces) continue;
    const T* from = static_cast<const T*>(plane) + slot_offset(p, slots[at], look.head) + k;
    copy_async(to + at * pitch + piece * 16, reinterpret_cast<const std::byte*>(from) + piece * 16);
  }
}

OUTRIDER_DEVICE std::int32_t slot_at(const SeenRow& row, int position) {
  return position < row.num_common ? row.common[position] : row.own[position - row.num_common];
}

// Whether a row has the slots of the lead wherever it looks, known without reading them: it looks
// nowhere before the lead does, and both read one list.
OUTRIDER_DEVICE bool has_path_of(const SeenRow& row, const SeenRow& lead) {
  return row.begin >= lead.begin && row.common == lead.common && row.own == lead.own &&
         (row.num_common == lead.num_common || row.own == nullptr);
}

// Whether a row sees a position, and from which slot.
struct SeenSlot {
  bool is_seen;
  std::int32_t slot;

  OUTRIDER_DEVICE SeenSlot(const SeenRow& row, int position)
      : is_seen(position >= row.begin && position < row.end),
        slot(is_seen ? slot_at(row, position) : -1) {}
};

// Fills the scores of all positions, [rows, heads, parts * kAttentionPart].
void score_positions(const Attention& attention, Stream stream);

}  // namespace outrider::cuda
