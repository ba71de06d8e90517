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
#include <algorithm>

#include "common/model/cuda/attention_tiles.h"
#include "common/model/cuda/quantized_rows.h"

namespace outrider::cuda {
namespace {

constexpr int kValueThreads = kMaxBundle * kWarpLanes;
constexpr int kCombineThreads = 128;

struct Span {
  int begin, end;
};

// Whether positions that are counted from a part's first, of which some may lie in other parts, are
// among those of a block.
OUTRIDER_DEVICE bool sees(Span seen, int block) {
  return block * kBlock < seen.end && (block + 1) * kBlock > seen.begin;
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

// A query's weights of a part in shared memory, and what blocks need and give beside them.
struct PartWeights {
  float weights[kAttentionPart];
  float largest[kPartBlocks];  // of the block's scores
  float sum[kPartBlocks];      // of its weights
  float shrink[kPartBlocks];   // of what is older
  Span seen;
  int unused[2];

  // They begin as scores. One warp each, of a block that is seen: first largest, for all blocks;
  // then the rest.
  OUTRIDER_DEVICE void find_largest(int block) {
    const int at = block * kBlock + thread_index() % kWarpLanes;
    const float found = largest_of_warp(larger(weights[at], weights[at + 32]));
    if (thread_index() % kWarpLanes == 0) largest[block] = found;
  }
  OUTRIDER_DEVICE void fill(int first_seen, int block) {
    const int lane = thread_index() % kWarpLanes, at = block * kBlock + lane;
    const float mine = lane >= first_seen && lane < block ? largest[lane] : kUnseen;
    const float before = largest_of_warp(mine), maximum = larger(before, largest[block]);
    const float low = exponential(add(weights[at], -maximum));
    const float high = exponential(add(weights[at + 32], -maximum));
    weights[at] = low;
    weights[at + 32] = high;
    const float total = sum_weights(low, high);
    if (lane > 0) return;
    sum[block] = total;
    shrink[block] = exponential(add(before, -maximum));
  }
};

// One query's values of a slice of elements, kEach in each lane of a warp. One each makes twice as
// many blocks, for passes that have few.
template <class T, int kEach>
struct ValueChain {
  static constexpr int kSlice = kEach * kWarpLanes;
  static constexpr int kPitch = kSlice * static_cast<int>(sizeof(T));
  static constexpr int kTiles = sizeof(T) == 2 ? 6 : 4;  // in shared memory
  static constexpr int kAhead = 32;
  struct alignas(kEach * sizeof(T)) Piece {
    T of[kEach];
  };

  const AttentionBatch& p;
  const Look& look;
  const SeenRow& row;
  int k;           // the lane's first element
  bool is_needed;  // the lane's elements are there
  float sums[kEach];

  OUTRIDER_DEVICE void add_one(const Piece& piece, float weight) {
    OUTRIDER_UNROLLED
    for (int e = 0; e < kEach; ++e) sums[e] = fused(widen(piece.of[e]), weight, sums[e]);
  }

  // The positions `span` of the block that begins at `first`. lead: the staged slots, or null if
  // the row has these wherever it looks.
  OUTRIDER_DEVICE void add_block(int first, Span span, const float* weights, float shrink,
                                 const std::int32_t* lead, const std::byte* staged) {
    if (!is_needed) return;
    OUTRIDER_UNROLLED
    for (float& sum : sums) sum = multiply(sum, shrink);
    staged += thread_index() % kWarpLanes * static_cast<int>(sizeof(Piece));
    int at = span.begin;
    if (lead != nullptr) {
      OUTRIDER_NOT_UNROLLED
      for (; at < span.end; ++at) {
        const std::int32_t slot = slot_at(row, first + at);
        const T* values = static_cast<const T*>(p.task.planes.values);
        const void* from = staged + at * kPitch;
        if (slot != lead[at]) from = values + slot_offset(p, slot, look.head) + k;
        add_one(read<Piece>(from), weights[at]);
      }
    }
    for (; at % 4 != 0 && at < span.end; ++at) {
      add_one(read<Piece>(staged + at * kPitch), weights[at]);
    }
    OUTRIDER_UNROLLED_TWICE
    for (; at + kAhead <= span.end; at += kAhead) {
      Piece pieces[kAhead];
      FourFloats by[kAhead / 4];
      OUTRIDER_UNROLLED
      for (int i = 0; i < kAhead; ++i) pieces[i] = read<Piece>(staged + (at + i) * kPitch);
      OUTRIDER_UNROLLED
      for (int i = 0; i < kAhead / 4; ++i) by[i] = read<FourFloats>(weights + at + 4 * i);
      OUTRIDER_UNROLLED
      for (int i = 0; i < kAhead; i += 4) {
        add_one(pieces[i], by[i / 4].x);
        add_one(pieces[i + 1], by[i / 4].y);
        add_one(pieces[i + 2], by[i / 4].z);
        add_one(pieces[i + 3], by[i / 4].w);
      }
    }
    for (; at < span.end; ++at) add_one(read<Piece>(staged + at * kPitch), weights[at]);
  }

  // Bit b: in block b of the part the row has the lead's slots wherever it looks; all lanes call.
  OUTRIDER_DEVICE std::uint32_t agreement(int first, Span seen, const std::int32_t* lead) const {
    const int lane = thread_index() % kWarpLanes;
    std::uint32_t mask = 0;
    OUTRIDER_NOT_UNROLLED
    for (int b = 0; b < kPartBlocks; ++b) {
      const int at = b * kBlock + lane;
      const bool low = at >= seen.begin && at < seen.end;
      const bool high = at + 32 >= seen.begin && at + 32 < seen.end;
      const bool agrees = (!low || slot_at(row, first + at) == lead[at]) &&
                          (!high || slot_at(row, first + at + 32) == lead[at + 32]);
      mask |= in_all_lanes(agrees) ? 1u << b : 0u;
    }
    return mask;
  }
};

// Shared memory of the values' kernel: tiles of values, the lead's slots, and the weights.
constexpr int kSlotBytes = static_cast<int>(kAttentionPart) * 4;
template <class T, int kEach>
constexpr int kValueBytes = ValueChain<T, kEach>::kTiles* kBlock* ValueChain<T, kEach>::kPitch +
                            kSlotBytes + kMaxBundle* static_cast<int>(sizeof(PartWeights));

// What one thread block does of a part: some queries, a slice of elements.
template <class T, int kEach>
struct PartBlock {
  using Chain = ValueChain<T, kEach>;
  static constexpr int kSlice = Chain::kSlice, kPitch = Chain::kPitch, kTile = kBlock * kPitch;
  static constexpr int kTiles = Chain::kTiles;

  const AttentionBatch& p;
  const Look look;
  const int slices, columns;  // of blocks along x
  const int part, k, count;   // elements from k on, and how many there are
  const int first, blocks;    // position, and blocks up to the lead's end; none: at most 0
  std::byte* memory;
  std::int32_t* slots;   // the lead's
  PartWeights* weights;  // by query

  OUTRIDER_DEVICE explicit PartBlock(const AttentionBatch& p)
      : p(p),
        look(p, block_y(), block_z()),
        slices((p.stride + kSlice - 1) / kSlice),
        columns(static_cast<int>(p.task.parts) * slices),
        part(block_x() / slices),
        k(block_x() % slices * kSlice),
        count(p.stride - k),
        first(part * static_cast<int>(kAttentionPart)),
        blocks(smaller((look.lead.end - first + kBlock - 1) / kBlock, kPartBlocks)),
        memory(shared_memory()),
        slots(reinterpret_cast<std::int32_t*>(memory + kTiles * kTile)),
        weights(reinterpret_cast<PartWeights*>(memory + kTiles * kTile + kSlotBytes)) {}

  // The lead's slots, and what each query sees: no kernel writes them.
  OUTRIDER_DEVICE void fetch_slots() const {
    const int thread = thread_index();
    for (int i = thread; i < blocks * kBlock; i += kValueThreads) {
      slots[i] = SeenSlot(look.lead, first + i).slot;
    }
    if (thread < look.count) {
      const SeenRow& row = p.task.rows[look.row(thread)];
      weights[thread].seen = {row.begin - first, row.end - first};
    }
  }
  OUTRIDER_DEVICE void fetch_scores() const {
    const int thread = thread_index(), pieces = blocks * kBlock / 4;
    for (int q = 0; q < look.count; ++q) {
      const float* scores = scores_of(p, look, q) + first;
      for (int i = thread; i < pieces; i += kValueThreads) {
        copy_async(weights[q].weights + 4 * i, scores + 4 * i);
      }
    }
    commit_copies();
  }

  // A block of values. Warps without a query copy for the others, if there are enough of them.
  OUTRIDER_DEVICE void fetch(int b) const {
    const int busy = look.count <= kMaxBundle / 2 ? look.count * kWarpLanes : 0;
    const Threads copiers = {thread_index() - busy, kValueThreads - busy};
    if (b < blocks && copiers.index >= 0) {
      stage_slots<T, kPitch / 16>(p, look, p.task.planes.values, slots + b * kBlock, k, count,
                                  kPitch, copiers, memory + b % kTiles * kTile);
    }
    commit_copies();
    if (copiers.index >= 0) prefetch_next(b * copiers.count + copiers.index);
  }

  // The weights that are read next come to L2 while this is bound by its chains: a line for each
  // thread and block of positions.
  OUTRIDER_DEVICE void prefetch_next(int line) const {
    constexpr std::int64_t kLine = 128;
    const std::int64_t column =
        (block_z() * p.task.shape.kv_heads + block_y()) * columns + block_x();
    const std::int64_t at = (column * kPartBlocks * kValueThreads + line) * kLine;
    if (at < p.task.next_bytes) prefetch_line(static_cast<const std::byte*>(p.task.next) + at);
  }

  // Turns scores into weights: pairs of a query and a block, shared by all warps.
  OUTRIDER_DEVICE void weigh() const {
    const int warp = thread_index() / kWarpLanes;
    OUTRIDER_NOT_UNROLLED
    for (int i = warp; i < look.count * blocks; i += kMaxBundle) {
      PartWeights& of = weights[i / blocks];
      if (sees(of.seen, i % blocks)) of.find_largest(i % blocks);
    }
    sync_threads();
    OUTRIDER_UNROLLED_TWICE
    for (int i = warp; i < look.count * blocks; i += kMaxBundle) {
      PartWeights& of = weights[i / blocks];
      if (sees(of.seen, i % blocks)) of.fill(of.seen.begin / kBlock, i % blocks);
    }
  }

  OUTRIDER_DEVICE void run() const {
    fetch_slots();
    wait_for_previous();
    fetch_scores();
    sync_threads();
    for (int b = 0; b < kTiles - 1; ++b) fetch(b);
    wait_copies<kTiles - 1>();
    sync_threads();
    weigh();
    const int lane = thread_index() % kWarpLanes, query = thread_index() / kWarpLanes;
    const bool is_mine = query < look.count;
    const SeenRow row = p.task.rows[look.row(is_mine ? query : 0)];
    const PartWeights& mine = weights[query];
    const Span seen = is_mine ? mine.seen : Span{0, 0};
    Chain chain{p, look, row, k + kEach * lane, kEach * lane < count, {}};
    std::uint32_t agreement = ~0u;
    if (is_mine && !has_path_of(row, look.lead)) agreement = chain.agreement(first, seen, slots);
    float total = 0.0f, maximum = kUnseen;
    for (int b = 0; b < blocks; ++b) {
      wait_copies<kTiles - 2>();
      sync_threads();  // block b is here for all, and block b - 1 is done with
      fetch(b + kTiles - 1);
      if (!sees(seen, b)) continue;
      total = add(multiply(total, mine.shrink[b]), mine.sum[b]);
      maximum = larger(maximum, mine.largest[b]);
      const Span span = {larger(seen.begin - b * kBlock, 0),
                         smaller(seen.end - b * kBlock, kBlock)};
      chain.add_block(first + b * kBlock, span, mine.weights + b * kBlock, mine.shrink[b],
                      (agreement >> b & 1u) != 0 ? nullptr : slots + b * kBlock,
                      memory + b % kTiles * kTile);
    }
    if (is_mine) store(query, chain, maximum, total);
  }

  OUTRIDER_DEVICE void store(int query, const Chain& chain, float maximum, float total) const {
    const std::int64_t row = look.row(query) * p.task.parts + part;
    float* partial = p.task.partials + (row * p.task.shape.heads + look.query_head(query)) *
                                           (p.stride + kPartialExtra);
    if (chain.is_needed) {
      OUTRIDER_UNROLLED
      for (int e = 0; e < kEach; ++e) partial[chain.k + e] = chain.sums[e];
    }
    if (k > 0 || thread_index() % kWarpLanes > 0) return;
    partial[p.stride] = maximum;
    partial[p.stride + 1] = total;
  }
};

template <class T, int kEach>
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kValueThreads, 2) add_part(OUTRIDER_ARGUMENT AttentionBatch p) {
  allow_next();
  PartBlock<T, kEach>(p).run();
}

struct CombineRow {
  const float* partials;
  float* out;
  std::byte* quantized;
  std::int64_t stride;  // of out
  int groups;           // of a quantised row
  int heads, parts, head_dim, head_stride;
};

// The parts of one element, in order.
OUTRIDER_DEVICE float combine_element(const CombineRow& p, std::int64_t row, int element) {
  const int width = p.head_stride + static_cast<int>(kPartialExtra);
  const int head = element / p.head_dim, k = element % p.head_dim;
  const float* partials = p.partials + (row * p.parts * p.heads + head) * width;
  const std::int64_t step = static_cast<std::int64_t>(p.heads) * width;
  float maximum = kUnseen;
  for (int i = 0; i < p.parts; ++i) maximum = larger(maximum, partials[i * step + p.head_stride]);
  float sum = 0.0f, value = 0.0f;
  for (int i = 0; i < p.parts; ++i) {
    const float* partial = partials + i * step;
    const float shrink = exponential(add(partial[p.head_stride], -maximum));
    sum = add(sum, multiply(partial[p.head_stride + 1], shrink));
    value = fused(partial[k], shrink, value);
  }
  return divide(value, sum);
}

// A warp takes a group of 32 elements; blocks along x share a row.
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kCombineThreads, 1) combine_row(OUTRIDER_ARGUMENT CombineRow p) {
  allow_next();
  wait_for_previous();
  const int lane = thread_index() % kWarpLanes;
  const int g = block_x() * (kCombineThreads / kWarpLanes) + thread_index() / kWarpLanes;
  const int count = p.heads * p.head_dim, at = g * 32 + lane;
  if (g * 32 >= count) return;
  const std::int64_t row = block_y();
  const float value = at < count ? combine_element(p, row, at) : 0.0f;
  if (p.out != nullptr && at < count) p.out[row * p.stride + at] = value;
  if (p.quantized == nullptr) return;
  quantize_group(value, lane, p.quantized + (row * p.groups + g) * kGroupBytes);
}

template <class T, int kEach>
void run_values(const AttentionBatch& batch, Stream stream) {
  using Chain = ValueChain<T, kEach>;
  const Attention& task = batch.task;
  const DeviceLimits& limits = device_limits();
  const std::int64_t columns = task.parts * ((batch.stride + Chain::kSlice - 1) / Chain::kSlice);
  const std::int64_t blocks = columns * task.shape.kv_heads * task.num_bundles;
  std::size_t bytes = kValueBytes<T, kEach>;
  // So that no two share a multiprocessor where each could have its own: a kernel that begins
  // beside the one before it is not spread evenly.
  if (blocks <= limits.multiprocessors) {
    bytes = std::max(bytes, static_cast<std::size_t>(limits.shared / 2));
  }
  launch(&add_part<T, kEach>,
         {static_cast<unsigned>(columns), static_cast<unsigned>(task.shape.kv_heads),
          static_cast<unsigned>(task.num_bundles), kValueThreads, bytes, start_for(task.num_rows)},
         stream, batch);
}

template <class T>
void run(const AttentionBatch& batch, Stream stream) {
  const Attention& task = batch.task;
  const std::int64_t slices = (batch.stride + 2 * kWarpLanes - 1) / (2 * kWarpLanes);
  const std::int64_t blocks = task.parts * slices * task.shape.kv_heads * task.num_bundles;
  const std::int64_t pairs = task.num_rows * task.shape.heads / task.shape.kv_heads;
  // Of many queries a block is bound by reading shared memory, as often for half of the elements.
  const bool is_few =
      2 * blocks <= device_limits().multiprocessors && pairs <= 2 * task.num_bundles;
  if (is_few) return run_values<T, 1>(batch, stream);
  run_values<T, 2>(batch, stream);
}

}  // namespace

void attend(const Attention& attention, Stream stream) {
  score_positions(attention, stream);
  const AttentionBatch batch{attention, static_cast<int>(pad_to_lanes(attention.shape.head_dim))};
  if (attention.planes.is_bf16) return run<std::uint16_t>(batch, stream);
  run<float>(batch, stream);
}

void combine_parts(const Attention& attention, const RowsOf& out, std::byte* quantized,
                   Stream stream) {
  const Heads& shape = attention.shape;
  const CombineRow row{attention.partials,
                       out.values,
                       quantized,
                       out.stride,
                       groups_of(out),
                       static_cast<int>(shape.heads),
                       static_cast<int>(attention.parts),
                       static_cast<int>(shape.head_dim),
                       static_cast<int>(pad_to_lanes(shape.head_dim))};
  constexpr std::int64_t kGroups = kCombineThreads / kWarpLanes;
  const std::int64_t groups = (shape.heads * shape.head_dim + 31) / 32;
  launch(&combine_row,
         {static_cast<unsigned>((groups + kGroups - 1) / kGroups),
          static_cast<unsigned>(attention.num_rows), 1, kCombineThreads, 0,
          start_for(attention.num_rows)},
         stream, row);
}

}  // namespace outrider::cuda
