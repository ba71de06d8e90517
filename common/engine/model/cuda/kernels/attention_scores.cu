// Attention's scores: a thread block takes a block of positions, a head of keys and up to eight
// queries, and a thread one position for four of them. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/kernels/attention_tiles.h"

namespace outrider::cuda {
namespace {

constexpr int kThreadQueries = 4;  // of a position
constexpr int kScoreThreads = kBlock * kMaxBundle / kThreadQueries;
constexpr int kScoreWarps = kScoreThreads / kWarpLanes;

// A key by some queries in shared memory, `stride` floats apart, element after element.
template <class T, int kQueries>
OUTRIDER_DEVICE void add_products(const T* key, const float* queries, int stride,
                                  float (&sums)[kQueries]) {
  constexpr int kVector = 16 / sizeof(T);
  OUTRIDER_UNROLLED_TWICE
  for (int k = 0; k < stride; k += kVector) {
    const auto key_part = read<Elements<T, kVector>>(key + k);
    OUTRIDER_UNROLLED
    for (int i = 0; i < kVector; i += 4) {
      OUTRIDER_UNROLLED
      for (int q = 0; q < kQueries; ++q) {
        const auto four = read<FourFloats>(queries + q * stride + k + i);
        sums[q] = fused(key_part.at(i), four.x, sums[q]);
        sums[q] = fused(key_part.at(i + 1), four.y, sums[q]);
        sums[q] = fused(key_part.at(i + 2), four.z, sums[q]);
        sums[q] = fused(key_part.at(i + 3), four.w, sums[q]);
      }
    }
  }
}

// Scores of kQueries queries from q on at one position, all of which see `slot` there, -1 for none.
template <class T, int kQueries>
OUTRIDER_DEVICE void score(const AttentionBatch& p, const Look& look, int q, int position,
                           std::int32_t slot, const T* key, const float* queries) {
  float sums[kQueries] = {};
  if (slot >= 0) add_products<T, kQueries>(key, queries + q * p.stride, p.stride, sums);
  OUTRIDER_UNROLLED
  for (int i = 0; i < kQueries; ++i) {
    scores_of(p, look, q + i)[position] = slot < 0 ? kUnseen : multiply(sums[i], p.task.scale);
  }
}

// Where a query of the block sees a position.
OUTRIDER_DEVICE std::int32_t slot_of(const AttentionBatch& p, const Look& look, int query,
                                     int position, std::int32_t slot_of_lead) {
  return seen_slot_beside(p.task.rows[look.row(query)], look.lead, position, slot_of_lead);
}

// Those of the thread's queries from q on. agrees: all of them see the position where the lead
// does, whose key is staged.
template <class T>
OUTRIDER_DEVICE void score_thread(const AttentionBatch& p, const Look& look, int q, int position,
                                  std::int32_t slot_of_lead, bool agrees, const T* staged,
                                  const float* queries) {
  if (agrees && q + kThreadQueries <= look.count) {
    score<T, kThreadQueries>(p, look, q, position, slot_of_lead, staged, queries);
  } else {
    OUTRIDER_NOT_UNROLLED
    for (int i = q; i < smaller(q + kThreadQueries, look.count); ++i) {
      std::int32_t slot = slot_of_lead;
      if (!agrees) slot = slot_of(p, look, i, position, slot_of_lead);
      if (slot == slot_of_lead) {
        score<T, 1>(p, look, i, position, slot, staged, queries);
      } else {
        const T* keys = static_cast<const T*>(p.task.planes.keys);
        const std::int64_t at = slot_offset(p, larger(slot, 0), look.head);
        score<T, 1>(p, look, i, position, slot, keys + at, queries);
      }
    }
  }
}

template <class T>
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kScoreThreads, sizeof(T) == 2 ? 6 : 4)
    score_block(OUTRIDER_ARGUMENT AttentionBatch p) {
  const Look look(p, block_y(), block_z());
  const int pitch = p.stride * static_cast<int>(sizeof(T)) + 16;  // shares no bank
  std::byte* keys = shared_memory();
  auto* queries = reinterpret_cast<float*>(keys + kBlock * pitch);  // [kMaxBundle, stride]
  auto* slots = reinterpret_cast<std::int32_t*>(queries + kMaxBundle * p.stride);  // [kBlock]
  const int first = block_x() * kBlock;
  allow_next();
  const int thread = thread_index();
  if (first >= look.lead.end) return wait_for_previous();  // a kernel ends behind the one before
  const int at = thread % kBlock, position = first + at, q = thread / kBlock * kThreadQueries;
  const std::int32_t of_lead = seen_slot(look.lead, position);
  slots[at] = of_lead;
  bool agrees = true;
  int row = -1;
  OUTRIDER_UNROLLED
  for (int i = 0; i < kThreadQueries; ++i) {
    const int query = smaller(q + i, look.count - 1);
    if (look.row(query) == row) continue;
    row = look.row(query);
    agrees = agrees && slot_of(p, look, query, position, of_lead) == of_lead;
  }
  wait_for_previous();
  for (int query = thread / kWarpLanes; query < look.count; query += kScoreWarps) {
    const std::int64_t head = look.row(query) * p.task.shape.heads + look.query_head(query);
    for (int k = thread % kWarpLanes * 4; k < p.stride; k += kWarpLanes * 4) {
      copy_async(queries + query * p.stride + k, p.task.queries + head * p.stride + k);
    }
  }
  sync_threads();
  stage_slots<T, 16, kScoreThreads>(p, look, p.task.planes.keys, slots, 0, p.stride, pitch, thread,
                                    keys);
  commit_copies();
  wait_copies<0>();
  sync_threads();
  score_thread(p, look, q, position, of_lead, agrees, reinterpret_cast<const T*>(keys + at * pitch),
               queries);
}

template <class T>
void run(const AttentionBatch& batch, Stream stream) {
  const Attention& task = batch.task;
  const auto kv_heads = static_cast<unsigned>(task.shape.kv_heads);
  const auto bundles = static_cast<unsigned>(task.num_bundles);
  const auto blocks = static_cast<unsigned>(task.parts * kPartBlocks);
  const auto stride = static_cast<std::size_t>(batch.stride);
  const std::size_t bytes = kBlock * (stride * sizeof(T) + 16) +
                            kMaxBundle * stride * sizeof(float) + kBlock * sizeof(std::int32_t);
  launch<&score_block<T>>(
      {blocks, kv_heads, bundles, kScoreThreads, bytes, start_for(task.num_rows)}, stream, batch);
}

}  // namespace

void score_positions(const Attention& attention, Stream stream) {
  const AttentionBatch batch(attention);
  if (attention.planes.is_bf16) return run<std::uint16_t>(batch, stream);
  run<float>(batch, stream);
}

}  // namespace outrider::cuda
