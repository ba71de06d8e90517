// Shared by the kernels of attention: the part that a thread block takes, and the places from which
// it reads keys and values.
//
// Included by files that hold kernels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/engine/model/cuda/kernels/device.h"
#include "common/engine/model/cuda/kernels/kernels.h"

namespace outrider::cuda {

inline constexpr int kBlock = kKvPageSlots;
inline constexpr int kPartBlocks = kAttentionPart / kBlock;
inline constexpr float kUnseen = -__builtin_inff();

struct AttentionBatch {
  Attention task;
  int stride;             // of a head
  int shared;             // queries of a row that share a head of keys
  std::uint64_t inverse;  // 2^32 / shared, rounded up: divides what is below 2^16

  explicit AttentionBatch(const Attention& of)
      : task(of),
        stride(static_cast<int>(pad_to_lanes(of.shape.head_dim))),
        shared(static_cast<int>(of.shape.heads / of.shape.kv_heads)),
        inverse(((std::uint64_t{1} << 32) + static_cast<std::uint64_t>(shared) - 1) /
                static_cast<std::uint64_t>(shared)) {}
};

// kCount elements of a key or value, read at once. A pair of bf16 is widened in two operations.
template <class T, int kCount>
struct Elements {
  Several<T, kCount> stored;
  OUTRIDER_DEVICE float at(int i) const {
    if constexpr (sizeof(T) == 2) return widen_bf16(stored.of[i]);
    return stored.of[i];
  }
};
template <int kCount>
requires(kCount % 2 == 0) struct Elements<std::uint16_t, kCount> {
  Several<std::uint32_t, kCount / 2> pairs;
  OUTRIDER_DEVICE float at(int i) const {
    const std::uint32_t pair = pairs.of[i / 2];
    return as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
  }
};

// Where one head of a slot lies, in elements.
OUTRIDER_DEVICE std::int64_t slot_offset(const AttentionBatch& p, std::int32_t slot, int head) {
  const auto at = static_cast<std::uint32_t>(slot);  // divides by less
  return at / kBlock * p.task.planes.page_stride +
         static_cast<std::int64_t>(head * kBlock + at % kBlock) * p.stride;
}

// The queries of a thread block.
struct Look {
  int head;  // of keys
  int first, count;
  int shared;
  std::uint64_t inverse;
  SeenRow lead;

  OUTRIDER_DEVICE Look(const AttentionBatch& p, int head, int bundle)
      : head(head),
        first(p.task.bundles[bundle].first),
        count(p.task.bundles[bundle].count),
        shared(p.shared),
        inverse(p.inverse),
        lead(p.task.rows[p.task.bundles[bundle].lead]) {}

  OUTRIDER_DEVICE int row(int query) const {
    return static_cast<int>(static_cast<std::uint64_t>(first + query) * inverse >> 32);
  }
  OUTRIDER_DEVICE int query_head(int query) const {
    return head * shared + first + query - row(query) * shared;
  }
};

OUTRIDER_DEVICE std::int64_t score_stride(const AttentionBatch& p) {
  return p.task.parts * kAttentionPart;
}
OUTRIDER_DEVICE float* scores_of(const AttentionBatch& p, const Look& look, int query) {
  const std::int64_t row = look.row(query) * p.task.shape.heads + look.query_head(query);
  return p.task.scores + row * score_stride(p);
}

// Copies elements [k, k + count) of a block's slots to shared memory, `pitch` bytes apart, with
// kThreads threads, kPieces of which share a slot. slots: of the block's positions, -1 where the
// lead sees none.
template <class T, int kPieces, int kThreads>
OUTRIDER_DEVICE void stage_slots(const AttentionBatch& p, const Look& look, const void* plane,
                                 const std::int32_t* slots, int k, int count, int pitch, int thread,
                                 std::byte* to) {
  constexpr int kElements = 16 / sizeof(T);  // of a piece
  OUTRIDER_NOT_UNROLLED
  for (int piece = thread % kPieces; piece * kElements < count; piece += kPieces) {
    const T* from = static_cast<const T*>(plane) + k + piece * kElements;
    OUTRIDER_UNROLLED
    for (int i = 0; i < kBlock * kPieces / kThreads; ++i) {
      const int at = (i * kThreads + thread) / kPieces;
      if (slots[at] < 0) continue;
      copy_async(to + at * pitch + piece * 16, from + slot_offset(p, slots[at], look.head));
    }
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

// From which slot a row sees a position; -1: it does not.
OUTRIDER_DEVICE std::int32_t seen_slot(const SeenRow& row, int position) {
  return position >= row.begin && position < row.end ? slot_at(row, position) : -1;
}
// The same, where the lead's is known: no row begins behind its lead.
OUTRIDER_DEVICE std::int32_t seen_slot_beside(const SeenRow& row, const SeenRow& lead, int position,
                                              std::int32_t slot_of_lead) {
  const bool is_same = slot_of_lead >= 0 && row.common == lead.common &&
                       position < smaller(row.num_common, lead.num_common);
  return is_same ? slot_of_lead : seen_slot(row, position);
}

// Fills the scores of all positions, [rows, heads, parts * kAttentionPart].
void score_positions(const Attention& attention, Stream stream);

}  // namespace outrider::cuda
