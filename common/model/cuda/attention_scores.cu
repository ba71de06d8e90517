// Attention's scores: a thread block takes a block of positions, a head of keys and up to eight
// queries, and a thread one position for two of them. SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/attention_tiles.h"

namespace outrider::cuda {
namespace {

constexpr int kScoreThreads = 4 * kBlock;
constexpr int kThreadQueries = kMaxBundle / (kScoreThreads / kBlock);  // of a position

// A key by some queries in shared memory, `stride` floats apart, element after element.
template <class T, int kQueries>
OUTRIDER_DEVICE void add_products(const T* key, const float* queries, int stride,
                                  float (&sums)[kQueries]) {
  constexpr int kVector = 16 / sizeof(T);
  struct alignas(16) Vector {
    T of[kVector];
  };
  for (int k = 0; k < stride; k += kVector) {
    const auto elements = read<Vector>(key + k);
    OUTRIDER_UNROLLED
    for (int q = 0; q < kQueries; ++q) {
      OUTRIDER_UNROLLED
      for (int i = 0; i < kVector; i += 4) {
        const auto four = read<FourFloats>(queries + q * stride + k + i);
        sums[q] = fused(widen(elements.of[i]), four.x, sums[q]);
        sums[q] = fused(widen(elements.of[i + 1]), four.y, sums[q]);
        sums[q] = fused(widen(elements.of[i + 2]), four.z, sums[q]);
        sums[q] = fused(widen(elements.of[i + 3]), four.w, sums[q]);
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
    scores_of(p, look, q + i)[position] = slot >= 0 ? multiply(sums[i], p.task.scale) : kUnseen;
  }
}

template <class T>
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kScoreThreads, 2) score_block(OUTRIDER_ARGUMENT AttentionBatch p) {
  const Look look(p, block_y(), block_z());
  const int pitch = p.stride * static_cast<int>(sizeof(T)) + 16;  // shares no bank
  std::byte* keys = shared_memory();
  auto* queries = reinterpret_cast<float*>(keys + kBlock * pitch);  // [kMaxBundle, stride]
  auto* slots = reinterpret_cast<std::int32_t*>(queries + kMaxBundle * p.stride);  // [kBlock]
  const int first = block_x() * kBlock;
  allow_next();
  const int thread = thread_index();
  if (first >= look.lead.end) return wait_for_previous();  // a kernel ends behind the one before
  if (thread < kBlock) slots[thread] = SeenSlot(look.lead, first + thread).slot;
  static_assert(kThreadQueries == 2);
  const int at = thread % kBlock, position = first + at, q = thread / kBlock * kThreadQueries;
  std::int32_t seen[kThreadQueries];
  for (int i = 0; i < kThreadQueries; ++i) {
    const int query = smaller(q + i, look.count - 1);
    seen[i] = SeenSlot(p.task.rows[look.row(query)], position).slot;
  }
  wait_for_previous();
  for (int i = thread; i < look.count * p.stride / 4; i += kScoreThreads) {
    const int query = i / (p.stride / 4), at = i % (p.stride / 4) * 4;
    const std::int64_t head = look.row(query) * p.task.shape.heads + look.query_head(query);
    copy_async(queries + query * p.stride + at, p.task.queries + head * p.stride + at);
  }
  sync_threads();
  stage_slots<T, 0>(p, look, p.task.planes.keys, slots, 0, p.stride, pitch, {thread, kScoreThreads},
                    keys);
  commit_copies();
  wait_copies<0>();
  sync_threads();
  if (q >= look.count) return;
  const auto key_of = [&](std::int32_t slot) {
    if (slot == slots[at]) return reinterpret_cast<const T*>(keys + at * pitch);
    return static_cast<const T*>(p.task.planes.keys) + slot_offset(p, slot, look.head);
  };
  const bool has_next = q + 1 < look.count;
  if (has_next && seen[0] == seen[1]) {
    return score<T, 2>(p, look, q, position, seen[0], key_of(seen[0]), queries);
  }
  score<T, 1>(p, look, q, position, seen[0], key_of(seen[0]), queries);
  if (has_next) score<T, 1>(p, look, q + 1, position, seen[1], key_of(seen[1]), queries);
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
  launch(&score_block<T>,
         {blocks, kv_heads, bundles, kScoreThreads, bytes, start_for(task.num_rows)}, stream,
         batch);
}

}  // namespace

void score_positions(const Attention& attention, Stream stream) {
  const AttentionBatch batch{attention, static_cast<int>(pad_to_lanes(attention.shape.head_dim))};
  if (attention.planes.is_bf16) return run<std::uint16_t>(batch, stream);
  run<float>(batch, stream);
}

}  // namespace outrider::cuda
