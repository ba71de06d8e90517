// Attention in the CPU's blocks of 64 absolute positions and parts of 1,024, in three kernels.
//
// Scores of all positions are independent, so their kernel takes a block of positions, a head of
// keys, and up to eight queries in a thread block. The values' kernel takes a part: its maxima are
// a running maximum over blocks, which has no rounding, so weights and what older weights shrink by
// are known before the chain over the positions, one for each element and query, begins. The last
// kernel combines parts in order.
//
// A block reads keys and values once for all its queries, from the slots of the row that sees the
// furthest; a row whose path has another slot at a position reads that one itself, so sharing
// changes no bit. SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/device.h"
#include "common/model/cuda/kernels.h"

namespace outrider::cuda {
namespace {

constexpr int kBlock = kKvPageSlots;
constexpr int kPartBlocks = kAttentionPart / kBlock;
constexpr int kScoreThreads = 4 * kBlock;
constexpr int kThreadQueries = kMaxBundle / (kScoreThreads / kBlock);  // of a position
constexpr int kValueThreads = kMaxBundle * kWarpLanes;
constexpr int kSlice = 64;  // elements of values that a block takes, two in each lane
constexpr int kCombineThreads = 128;
constexpr float kUnseen = -__builtin_inff();

struct AttentionBatch {
  Attention task;
  int stride;  // of a head
};

struct Span {
  int begin, end;
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

// Copies elements [k, k + count) of a block's slots to shared memory, `pitch` bytes apart. slots:
// of the block's positions, -1 where the lead sees none.
template <class T, int kThreads>
OUTRIDER_DEVICE void stage_slots(const AttentionBatch& p, const Look& look, const void* plane,
                                 const std::int32_t* slots, int k, int count, int pitch,
                                 std::byte* to) {
  const int pieces = count * static_cast<int>(sizeof(T)) / 16;
  for (int i = thread_index(); i < kBlock * pieces; i += kThreads) {
    const int at = i / pieces, piece = i % pieces;
    if (slots[at] < 0) continue;
    const T* from = static_cast<const T*>(plane) + slot_offset(p, slots[at], look.head) + k;
    copy_async(to + at * pitch + piece * 16, reinterpret_cast<const std::byte*>(from) + piece * 16);
  }
}

// Whether a row sees a position, and from which slot.
struct SeenSlot {
  bool is_seen;
  std::int32_t slot;

  OUTRIDER_DEVICE SeenSlot(const SeenRow& row, int position)
      : is_seen(position >= row.begin && position < row.end),
        slot(is_seen ? row.path[position] : -1) {}
};

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
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kScoreThreads, 2)
    score_positions(OUTRIDER_ARGUMENT AttentionBatch p) {
  const Look look(p, block_y(), block_z());
  const int pitch = p.stride * static_cast<int>(sizeof(T)) + 16;  // shares no bank
  std::byte* keys = shared_memory();
  auto* queries = reinterpret_cast<float*>(keys + kBlock * pitch);  // [kMaxBundle, stride]
  auto* slots = reinterpret_cast<std::int32_t*>(queries + kMaxBundle * p.stride);  // [kBlock]
  const int first = block_x() * kBlock;
  if (first >= look.lead.end) return;
  const int thread = thread_index();
  for (int i = thread; i < look.count * p.stride / 4; i += kScoreThreads) {
    const int query = i / (p.stride / 4), at = i % (p.stride / 4) * 4;
    const std::int64_t head = look.row(query) * p.task.shape.heads + look.query_head(query);
    copy_async(queries + query * p.stride + at, p.task.queries + head * p.stride + at);
  }
  if (thread < kBlock) slots[thread] = SeenSlot(look.lead, first + thread).slot;
  static_assert(kThreadQueries == 2);
  const int at = thread % kBlock, position = first + at, q = thread / kBlock * kThreadQueries;
  std::int32_t seen[kThreadQueries];
  for (int i = 0; i < kThreadQueries; ++i) {
    const int query = smaller(q + i, look.count - 1);
    seen[i] = SeenSlot(p.task.rows[look.row(query)], position).slot;
  }
  sync_threads();
  stage_slots<T, kScoreThreads>(p, look, p.task.planes.keys, slots, 0, p.stride, pitch, keys);
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

OUTRIDER_DEVICE float largest_of_warp(float value) {
  for (int mask = 16; mask > 0; mask /= 2) value = larger(value, shuffle_xor(value, mask));
  return value;
}

// Sixteen lanes' sums of a block's weights, then the lanes' tree; two weights in each lane of the
// warp: of positions lane and 32 + lane. Holds in lanes below 16.
OUTRIDER_DEVICE float sum_weights(float low, float high) {
  const float next = shuffle_xor(low, 16), last = shuffle_xor(high, 16);
  float sum = add(add(add(add(0.0f, low), next), high), last);
  for (int mask = 8; mask > 0; mask /= 2) sum = add(sum, shuffle_xor(sum, mask));
  return sum;
}

// A partial result beside its values.
struct PartSum {
  float maximum, sum;
};

// A query's weights of a part in shared memory, and by how much each block shrinks what is older.
struct PartWeights {
  static constexpr int kTogether = 4;
  float weights[kAttentionPart];
  float shrink[kPartBlocks];

  // From its scores; one warp, of which lane 0 has the result. Four blocks at a time without a
  // branch between them, so that their long operations overlap; one that is not seen changes
  // nothing.
  OUTRIDER_DEVICE PartSum fill(const float* scores, Span seen) {
    PartSum result{kUnseen, 0.0f};
    for (int first = 0; first < kPartBlocks; first += kTogether) {
      if (first * kBlock >= seen.end || (first + kTogether) * kBlock <= seen.begin) continue;
      fill_blocks(scores, seen, first, result);
    }
    return result;
  }

  OUTRIDER_DEVICE void fill_blocks(const float* scores, Span seen, int first, PartSum& result) {
    const int lane = thread_index() % kWarpLanes;
    float low[kTogether], high[kTogether], largest[kTogether], sum[kTogether], factor[kTogether];
    OUTRIDER_UNROLLED
    for (int i = 0; i < kTogether; ++i) {
      const int at = (first + i) * kBlock + lane;
      low[i] = sees(seen, first + i) ? scores[at] : kUnseen;
      high[i] = sees(seen, first + i) ? scores[at + 32] : kUnseen;
    }
    OUTRIDER_UNROLLED
    for (int i = 0; i < kTogether; ++i) largest[i] = largest_of_warp(larger(low[i], high[i]));
    OUTRIDER_UNROLLED
    for (int i = 0; i < kTogether; ++i) {
      const float before = i == 0 ? result.maximum : largest[i - 1];
      largest[i] = larger(before, largest[i]);
      const float base = sees(seen, first + i) ? largest[i] : 0.0f;
      low[i] = exponential(add(low[i], -base));
      high[i] = exponential(add(high[i], -base));
      factor[i] = exponential(sees(seen, first + i) ? add(before, -base) : 0.0f);
    }
    OUTRIDER_UNROLLED
    for (int i = 0; i < kTogether; ++i) sum[i] = sum_weights(low[i], high[i]);
    OUTRIDER_UNROLLED
    for (int i = 0; i < kTogether; ++i) {
      if (sees(seen, first + i)) result.sum = add(multiply(result.sum, factor[i]), sum[i]);
      weights[(first + i) * kBlock + lane] = low[i];
      weights[(first + i) * kBlock + 32 + lane] = high[i];
      if (lane == 0) shrink[first + i] = factor[i];
    }
    result.maximum = largest[kTogether - 1];
  }

  static OUTRIDER_DEVICE bool sees(Span seen, int block) {
    return seen.begin < seen.end && block * kBlock < seen.end && (block + 1) * kBlock > seen.begin;
  }
};

// One query's values of a slice of elements, two in each lane of a warp.
template <class T>
struct ValueChain {
  static constexpr int kPitch = kSlice * static_cast<int>(sizeof(T));
  static constexpr int kTiles = sizeof(T) == 2 ? 6 : 4;  // in shared memory
  static constexpr int kAhead = 16;
  struct alignas(2 * sizeof(T)) Pair {
    T of[2];
  };

  const AttentionBatch& p;
  const Look& look;
  const SeenRow& row;
  int k;           // the lane's first element
  bool is_needed;  // the lane's elements are there
  float sums[2];

  OUTRIDER_DEVICE void add_one(const Pair& pair, float weight) {
    sums[0] = fused(widen(pair.of[0]), weight, sums[0]);
    sums[1] = fused(widen(pair.of[1]), weight, sums[1]);
  }

  // The positions `span` of the block that begins at `first`. lead: the staged slots, or null if
  // the row has these wherever it looks.
  OUTRIDER_DEVICE void add_block(int first, Span span, const float* weights, float shrink,
                                 const std::int32_t* lead, const std::byte* staged) {
    if (!is_needed) return;
    sums[0] = multiply(sums[0], shrink);
    sums[1] = multiply(sums[1], shrink);
    staged += thread_index() % kWarpLanes * static_cast<int>(sizeof(Pair));
    int at = span.begin;
    if (lead != nullptr) {
      for (; at < span.end; ++at) {
        const std::int32_t slot = row.path[first + at];
        const T* values = static_cast<const T*>(p.task.planes.values);
        const void* from = staged + at * kPitch;
        if (slot != lead[at]) from = values + slot_offset(p, slot, look.head) + k;
        add_one(read<Pair>(from), weights[at]);
      }
    }
    for (; at % 4 != 0 && at < span.end; ++at) {
      add_one(read<Pair>(staged + at * kPitch), weights[at]);
    }
    for (; at + kAhead <= span.end; at += kAhead) {
      Pair pairs[kAhead];
      FourFloats by[kAhead / 4];
      OUTRIDER_UNROLLED
      for (int i = 0; i < kAhead; ++i) pairs[i] = read<Pair>(staged + (at + i) * kPitch);
      OUTRIDER_UNROLLED
      for (int i = 0; i < kAhead / 4; ++i) by[i] = read<FourFloats>(weights + at + 4 * i);
      OUTRIDER_UNROLLED
      for (int i = 0; i < kAhead; i += 4) {
        add_one(pairs[i], by[i / 4].x);
        add_one(pairs[i + 1], by[i / 4].y);
        add_one(pairs[i + 2], by[i / 4].z);
        add_one(pairs[i + 3], by[i / 4].w);
      }
    }
    for (; at < span.end; ++at) add_one(read<Pair>(staged + at * kPitch), weights[at]);
  }

  // Bit b: in block b of the part the row has the lead's slots wherever it looks; all lanes call.
  OUTRIDER_DEVICE std::uint32_t agreement(int first, Span seen, const std::int32_t* lead) const {
    const int lane = thread_index() % kWarpLanes;
    std::uint32_t mask = 0;
    OUTRIDER_UNROLLED
    for (int b = 0; b < kPartBlocks; ++b) {
      bool agrees = true;
      OUTRIDER_UNROLLED
      for (int at = b * kBlock + lane; at < (b + 1) * kBlock; at += kWarpLanes) {
        const bool is_seen = at >= seen.begin && at < seen.end;
        agrees = agrees && (!is_seen || row.path[first + at] == lead[at]);
      }
      mask |= in_all_lanes(agrees) ? 1u << b : 0u;
    }
    return mask;
  }
};

// Shared memory of the values' kernel: tiles of values, the lead's slots, and the weights.
constexpr int kSlotBytes = static_cast<int>(kAttentionPart) * 4;
template <class T>
constexpr int kValueBytes = ValueChain<T>::kTiles* kBlock* ValueChain<T>::kPitch + kSlotBytes +
                            kMaxBundle* static_cast<int>(sizeof(PartWeights));

template <class T>
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kValueThreads, 2) add_part(OUTRIDER_ARGUMENT AttentionBatch p) {
  constexpr int kPitch = ValueChain<T>::kPitch, kTile = kBlock * kPitch;
  constexpr int kTiles = ValueChain<T>::kTiles;
  const int slices = (p.stride + kSlice - 1) / kSlice;
  const int slice = block_x() % slices, part = block_x() / slices;
  const Look look(p, block_y(), block_z());
  const int k = slice * kSlice, count = smaller(p.stride - k, kSlice);
  const int first = part * static_cast<int>(kAttentionPart);
  const int blocks = larger(0, smaller(kPartBlocks, (look.lead.end - first + kBlock - 1) / kBlock));
  const int lane = thread_index() % kWarpLanes, query = thread_index() / kWarpLanes;
  const bool is_mine = query < look.count;
  std::byte* memory = shared_memory();
  auto* slots = reinterpret_cast<std::int32_t*>(memory + kTiles * kTile);
  PartWeights& weights =
      reinterpret_cast<PartWeights*>(memory + kTiles * kTile + kSlotBytes)[query];
  for (int i = thread_index(); i < blocks * kBlock; i += kValueThreads) {
    slots[i] = SeenSlot(look.lead, first + i).slot;
  }
  sync_threads();
  const auto fetch = [&](int b) {
    if (b < blocks) {
      stage_slots<T, kValueThreads>(p, look, p.task.planes.values, slots + b * kBlock, k, count,
                                    kPitch, memory + b % kTiles * kTile);
    }
    commit_copies();
  };
  for (int b = 0; b < kTiles - 1; ++b) fetch(b);
  const SeenRow row = p.task.rows[look.row(is_mine ? query : 0)];
  ValueChain<T> chain{p, look, row, k + 2 * lane, 2 * lane < count, {}};
  const Span seen = {larger(row.begin - first, 0),
                     smaller(row.end - first, static_cast<int>(kAttentionPart))};
  PartSum result{kUnseen, 0.0f};
  std::uint32_t agreement = 0;
  if (is_mine) {
    agreement = row.path == look.lead.path ? ~0u : chain.agreement(first, seen, slots);
    result = weights.fill(scores_of(p, look, query) + first, seen);
  }
  for (int b = 0; b < blocks; ++b) {
    wait_copies<kTiles - 2>();
    sync_threads();  // block b is here for all, and block b - 1 is done with
    fetch(b + kTiles - 1);
    if (!is_mine || !PartWeights::sees(seen, b)) continue;
    const Span span = {larger(seen.begin - b * kBlock, 0), smaller(seen.end - b * kBlock, kBlock)};
    chain.add_block(first + b * kBlock, span, weights.weights + b * kBlock, weights.shrink[b],
                    (agreement >> b & 1u) != 0 ? nullptr : slots + b * kBlock,
                    memory + b % kTiles * kTile);
  }
  if (!is_mine) return;
  float* partial = p.task.partials + ((look.row(query) * p.task.parts + part) * p.task.shape.heads +
                                      look.query_head(query)) *
                                         (p.stride + kPartialExtra);
  if (chain.is_needed) {
    partial[chain.k] = chain.sums[0];
    partial[chain.k + 1] = chain.sums[1];
  }
  if (slice > 0 || lane > 0) return;
  partial[p.stride] = result.maximum;
  partial[p.stride + 1] = result.sum;
}

struct CombineRow {
  const float* partials;
  float* out;
  std::int64_t stride;  // of out
  int heads, parts, head_dim, head_stride;
};

// A block takes a head of a row; the heads' last one also clears what is behind them.
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kCombineThreads, 1) combine_row(OUTRIDER_ARGUMENT CombineRow p) {
  const int width = p.head_stride + static_cast<int>(kPartialExtra);
  const std::int64_t row = block_x();
  const float* partials = p.partials + (row * p.parts * p.heads + block_y()) * width;
  const std::int64_t step = static_cast<std::int64_t>(p.heads) * width;
  float maximum = kUnseen;
  for (int i = 0; i < p.parts; ++i) maximum = larger(maximum, partials[i * step + p.head_stride]);
  float* out = p.out + row * p.stride + static_cast<std::int64_t>(block_y()) * p.head_dim;
  for (int k = thread_index(); k < p.head_dim; k += kCombineThreads) {
    float sum = 0.0f, value = 0.0f;
    for (int i = 0; i < p.parts; ++i) {
      const float* partial = partials + i * step;
      const float shrink = exponential(add(partial[p.head_stride], -maximum));
      sum = add(sum, multiply(partial[p.head_stride + 1], shrink));
      value = fused(partial[k], shrink, value);
    }
    out[k] = divide(value, sum);
  }
  const std::int64_t end = static_cast<std::int64_t>(p.heads) * p.head_dim;
  if (block_y() != p.heads - 1) return;
  for (std::int64_t i = end + thread_index(); i < p.stride; i += kCombineThreads) {
    p.out[row * p.stride + i] = 0.0f;
  }
}

template <class T>
void run(const AttentionBatch& batch, Stream stream) {
  const Attention& task = batch.task;
  const auto kv_heads = static_cast<unsigned>(task.shape.kv_heads);
  const auto bundles = static_cast<unsigned>(task.num_bundles);
  const auto parts = static_cast<unsigned>(task.parts);
  const auto stride = static_cast<std::size_t>(batch.stride);
  launch(&score_positions<T>, parts * kPartBlocks, kv_heads, bundles, kScoreThreads,
         kBlock * (stride * sizeof(T) + 16) + kMaxBundle * stride * sizeof(float) +
             kBlock * sizeof(std::int32_t),
         stream, batch);
  const auto slices = static_cast<unsigned>((batch.stride + kSlice - 1) / kSlice);
  launch(&add_part<T>, parts * slices, kv_heads, bundles, kValueThreads, kValueBytes<T>, stream,
         batch);
}

}  // namespace

void attend(const Attention& attention, Stream stream) {
  const AttentionBatch batch{attention, static_cast<int>(pad_to_lanes(attention.shape.head_dim))};
  if (attention.planes.is_bf16) return run<std::uint16_t>(batch, stream);
  run<float>(batch, stream);
}

void combine_parts(const Attention& attention, float* out, std::int64_t stride, Stream stream) {
  const Heads& shape = attention.shape;
  const CombineRow row{attention.partials,
                       out,
                       stride,
                       static_cast<int>(shape.heads),
                       static_cast<int>(attention.parts),
                       static_cast<int>(shape.head_dim),
                       static_cast<int>(pad_to_lanes(shape.head_dim))};
  launch(&combine_row, static_cast<unsigned>(attention.num_rows),
         static_cast<unsigned>(shape.heads), 1, kCombineThreads, 0, stream, row);
}

}  // namespace outrider::cuda
