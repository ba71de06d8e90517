// Attention in the CPU's blocks of 64 absolute positions and parts of 1,024, in three kernels.
//
// Scores of all positions are independent, so their kernel takes a block of positions, a head of
// keys, and up to eight queries in a thread block. The values' kernel takes a part. The maximum of
// the positions up to each block needs no rounding, so all weights of a part are found at once, by
// all warps, while its values are on their way; then some warps sum values, block after block, and
// the others copy. The last kernel combines parts in order.
//
// A thread block reads keys and values once for all its queries, from the slots of the row that
// sees the furthest; a row whose path has another slot at a position reads that one itself, so
// sharing changes no bit. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/engine/model/cuda/kernels/attention_tiles.h"
#include "common/engine/model/cuda/kernels/quantized_rows.h"

namespace outrider::cuda {
namespace {

constexpr int kSumQueries = 2;  // of a warp that sums
constexpr int kSumThreads = kMaxBundle / kSumQueries * kWarpLanes;
constexpr int kCopyThreads = 4 * kWarpLanes;
constexpr int kValueThreads = kSumThreads + kCopyThreads;
constexpr int kValueWarps = kValueThreads / kWarpLanes;
static_assert(kValueWarps == kMaxBundle);            // where a warp takes a query
static_assert(kValueThreads * 4 == kAttentionPart);  // each copies 16 bytes of a query's scores
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

// The shared memory of a thread block beside its tiles of values.
struct PartMemory {
  float weights[kMaxBundle][kAttentionPart];  // scores at first
  std::int32_t slots[kAttentionPart];         // the lead's
  float largest[kMaxBundle][kPartBlocks];     // score of a block
  float maximum[kMaxBundle][kPartBlocks];     // score of all blocks up to it
  float shrink[kMaxBundle][kPartBlocks];      // of the sums of older blocks
  float total[kMaxBundle][kPartBlocks];       // of a block's weights
  Span seen[kMaxBundle];                      // by query
  std::uint32_t agreement[kMaxBundle];        // bit b: in block b the lead's slots are the query's
};

// One thread block's work on a part: some queries, a slice of elements, kEach in each lane of a
// warp that sums. One each makes twice as many thread blocks, for passes that have few.
template <class T, int kEach>
struct PartBlock {
  static constexpr int kSlice = kEach * kWarpLanes;
  static constexpr int kPitch = kSlice * static_cast<int>(sizeof(T));
  static constexpr int kTile = kBlock * kPitch;
  static constexpr int kTiles = (64 << 10) / kTile;
  static constexpr int kBytes = kTiles * kTile + static_cast<int>(sizeof(PartMemory));
  static constexpr int kAhead = 16;  // positions whose values are read before they are summed
  using Piece = Elements<T, kEach>;

  const AttentionBatch& p;
  const Look look;
  const int slices, columns;  // of blocks along x
  const int part, k, count;   // elements from k on, and how many there are
  const int first, blocks;    // position, and blocks up to the lead's end; none: at most 0
  const int thread, lane, warp;
  std::byte* memory;
  PartMemory& beside;

  OUTRIDER_DEVICE explicit PartBlock(const AttentionBatch& p)
      : p(p),
        look(p, block_y(), block_z()),
        slices((p.stride + kSlice - 1) / kSlice),
        columns(static_cast<int>(p.task.parts) * slices),
        part(block_x() / slices),
        k(block_x() % slices * kSlice),
        count(smaller(p.stride - k, kSlice)),
        first(part * static_cast<int>(kAttentionPart)),
        blocks(smaller((look.lead.end - first + kBlock - 1) / kBlock, kPartBlocks)),
        thread(thread_index()),
        lane(thread % kWarpLanes),
        warp(thread / kWarpLanes),
        memory(shared_memory()),
        beside(*reinterpret_cast<PartMemory*>(memory + kTiles * kTile)) {}

  OUTRIDER_DEVICE const std::byte* values(int b) const { return memory + b % kTiles * kTile; }

  OUTRIDER_DEVICE void run() const {
    // Data that no kernel writes is read before the wait.
    for (int i = thread; i < blocks * kBlock; i += kValueThreads) {
      beside.slots[i] = seen_slot(look.lead, first + i);
    }
    sync_threads();
    find_seen(warp);
    wait_for_previous();
    if (thread / (kBlock / 4) < blocks) {
      OUTRIDER_NOT_UNROLLED
      for (int query = 0; query < look.count; ++query) {
        copy_async(beside.weights[query] + thread * 4,
                   scores_of(p, look, query) + first + thread * 4);
      }
    }
    commit_copies();
    const int copier = thread - kSumThreads;
    if (copier >= 0) {
      for (int b = 0; b < kTiles - 1; ++b) fetch(b, copier);
      wait_copies<kTiles - 1>();
    } else {
      wait_copies<0>();
    }
    sync_threads();
    find_weights();
    if (copier >= 0) {
      run_copies(copier);
    } else {
      run_sums(warp * kSumQueries);
    }
  }

  // Finds the positions that a query sees, for all warps. Called by all lanes of one warp.
  OUTRIDER_DEVICE void find_seen(int query) const {
    Span seen{0, 0};
    std::uint32_t agreement = ~0u;
    if (query < look.count) {
      const SeenRow row = p.task.rows[look.row(query)];
      seen = {row.begin - first, row.end - first};
      if (!has_path_of(row, look.lead)) agreement = find_agreement(row, seen);
    }
    if (lane > 0) return;
    beside.seen[query] = seen;
    beside.agreement[query] = agreement;
  }
  OUTRIDER_DEVICE std::uint32_t find_agreement(const SeenRow& row, Span seen) const {
    std::uint32_t mask = 0;
    OUTRIDER_NOT_UNROLLED
    for (int b = 0; b < blocks; ++b) {
      const int at = b * kBlock + lane;
      const bool low = at >= seen.begin && at < seen.end;
      const bool high = at + 32 >= seen.begin && at + 32 < seen.end;
      const bool agrees = (!low || slot_at(row, first + at) == beside.slots[at]) &&
                          (!high || slot_at(row, first + at + 32) == beside.slots[at + 32]);
      mask |= in_all_lanes(agrees) ? 1u << b : 0u;
    }
    return mask;
  }

  // Scores of all queries become weights, each block of positions by a warp.
  OUTRIDER_DEVICE void find_weights() const {
    constexpr int kWarpBlocks = kPartBlocks / kValueWarps;
    OUTRIDER_NOT_UNROLLED
    for (int query = 0; query < look.count; ++query) {
      OUTRIDER_UNROLLED
      for (int i = 0; i < kWarpBlocks; ++i) find_largest(query, i * kValueWarps + warp);
    }
    sync_threads();
    if (warp < look.count && lane < kPartBlocks) find_maximum(warp);
    sync_threads();
    OUTRIDER_NOT_UNROLLED
    for (int query = 0; query < look.count; ++query) {
      OUTRIDER_UNROLLED
      for (int i = 0; i < kWarpBlocks; ++i) find_weights(query, i * kValueWarps + warp);
    }
  }
  OUTRIDER_DEVICE void find_largest(int query, int b) const {
    const float* scores = beside.weights[query] + b * kBlock + lane;
    const float largest = largest_of_warp(larger(scores[0], scores[kWarpLanes]));
    if (lane > 0) return;
    beside.largest[query][b] = sees(beside.seen[query], b) ? largest : kUnseen;
  }
  // A lane for each block.
  OUTRIDER_DEVICE void find_maximum(int query) const {
    float before = kUnseen;
    for (int b = 0; b < lane; ++b) before = larger(before, beside.largest[query][b]);
    const float maximum = larger(before, beside.largest[query][lane]);
    beside.maximum[query][lane] = maximum;
    beside.shrink[query][lane] = exponential(add(before, -maximum));
  }
  OUTRIDER_DEVICE void find_weights(int query, int b) const {
    if (!sees(beside.seen[query], b)) return;
    float* at = beside.weights[query] + b * kBlock + lane;
    const float maximum = beside.maximum[query][b];
    const float low = exponential(add(at[0], -maximum));
    const float high = exponential(add(at[kWarpLanes], -maximum));
    at[0] = low;
    at[kWarpLanes] = high;
    const float total = sum_weights(low, high);
    if (lane == 0) beside.total[query][b] = total;
  }

  OUTRIDER_DEVICE void fetch(int b, int copier) const {
    if (b < blocks) {
      stage_slots<T, kPitch / 16, kCopyThreads>(p, look, p.task.planes.values,
                                                beside.slots + b * kBlock, k, count, kPitch, copier,
                                                memory + b % kTiles * kTile);
    }
    commit_copies();
  }

  // Keeps the tiles filled while others sum them.
  OUTRIDER_DEVICE void run_copies(int copier) const {
    for (int b = 0; b < blocks; ++b) {
      wait_copies<kTiles - 2>();
      sync_threads();  // block b is here for all, and the sums of block b - 1 are done
      fetch(b + kTiles - 1, copier);
      prefetch_next(b * kCopyThreads + copier);
    }
    if (k == 0 && copier < look.count) store_total(copier);
  }
  // The maximum and the weights' sum of a query's part.
  OUTRIDER_DEVICE void store_total(int query) const {
    const Span seen = beside.seen[query];
    float total = 0.0f;
    for (int b = 0; b < blocks; ++b) {
      if (!sees(seen, b)) continue;
      total = add(multiply(total, beside.shrink[query][b]), beside.total[query][b]);
    }
    partial(query)[p.stride] = beside.maximum[query][kPartBlocks - 1];
    partial(query)[p.stride + 1] = total;
  }

  // The weights that are read next come to L2 while this is bound by its chains: two lines for each
  // thread that copies and block of positions.
  OUTRIDER_DEVICE void prefetch_next(int lines) const {
    constexpr std::int64_t kLine = 128;
    const std::int64_t column =
        (block_z() * p.task.shape.kv_heads + block_y()) * columns + block_x();
    const std::int64_t at = (column * kPartBlocks * kCopyThreads + lines) * 2 * kLine;
    if (at < p.task.next_bytes) prefetch_line(static_cast<const std::byte*>(p.task.next) + at);
    if (at + kLine < p.task.next_bytes) {
      prefetch_line(static_cast<const std::byte*>(p.task.next) + at + kLine);
    }
  }

  // The chains over positions of a warp: of two queries from `query` on.
  OUTRIDER_DEVICE void run_sums(int query) const {
    const bool is_needed = kEach * lane < count;
    float sums[kSumQueries][kEach] = {};
    for (int b = 0; b < blocks; ++b) {
      sync_threads();
      if (is_needed) add_block(b, query, sums);
    }
    OUTRIDER_UNROLLED
    for (int i = 0; i < kSumQueries; ++i) {
      if (!is_needed || query + i >= look.count) continue;
      OUTRIDER_UNROLLED
      for (int e = 0; e < kEach; ++e) partial(query + i)[k + kEach * lane + e] = sums[i][e];
    }
  }

  OUTRIDER_DEVICE void add_block(int b, int query, float (&sums)[kSumQueries][kEach]) const {
    Span spans[kSumQueries];
    bool are_one = true;  // both see the same positions, in the lead's slots
    OUTRIDER_UNROLLED
    for (int i = 0; i < kSumQueries; ++i) {
      const Span seen = beside.seen[query + i];
      spans[i] = {larger(seen.begin - b * kBlock, 0), smaller(seen.end - b * kBlock, kBlock)};
      are_one = are_one && agrees(b, query + i) && spans[i].begin == spans[0].begin &&
                spans[i].end == spans[0].end;
      if (!sees(seen, b)) continue;
      const float shrink = beside.shrink[query + i][b];
      OUTRIDER_UNROLLED
      for (float& sum : sums[i]) sum = multiply(sum, shrink);
    }
    if (are_one) return add_run<kSumQueries>(b, query, spans[0], sums);
    OUTRIDER_UNROLLED
    for (int i = 0; i < kSumQueries; ++i) add_alone(b, query + i, spans[i], sums[i]);
  }
  OUTRIDER_DEVICE bool agrees(int b, int query) const {
    return (beside.agreement[query] >> b & 1u) != 0;
  }

  // Positions of a block that one query sees; where it disagrees with the lead some are its own.
  OUTRIDER_DEVICE void add_alone(int b, int query, Span span, float (&sums)[kEach]) const {
    if (agrees(b, query)) {
      return add_run<1>(b, query, span, reinterpret_cast<float(&)[1][kEach]>(sums));
    }
    OUTRIDER_NOT_UNROLLED
    for (int at = span.begin; at < span.end; ++at) {
      const SeenRow& row = p.task.rows[look.row(query)];
      const std::int32_t slot = slot_at(row, first + b * kBlock + at);
      const void* from = values(b) + at * kPitch + lane * static_cast<int>(sizeof(Piece));
      if (slot != beside.slots[b * kBlock + at]) {
        from = static_cast<const T*>(p.task.planes.values) + slot_offset(p, slot, look.head) + k +
               kEach * lane;
      }
      add_one(read<Piece>(from), beside.weights[query][b * kBlock + at], sums);
    }
  }

  // Positions of a block that kCount queries from `query` on see, all from the lead's slots.
  template <int kCount>
  OUTRIDER_DEVICE void add_run(int b, int query, Span span, float (&sums)[kCount][kEach]) const {
    const std::byte* from = values(b) + lane * static_cast<int>(sizeof(Piece));
    const float* weights = beside.weights[query] + b * kBlock;
    int at = span.begin;
    const auto add_next = [&] {
      OUTRIDER_UNROLLED
      for (int i = 0; i < kCount; ++i) {
        add_one(read<Piece>(from + at * kPitch), weights[i * kAttentionPart + at], sums[i]);
      }
      ++at;
    };
    while (at % 4 != 0 && at < span.end) add_next();
    OUTRIDER_UNROLLED_TWICE
    for (; at + kAhead <= span.end; at += kAhead) {
      Piece pieces[kAhead];
      FourFloats by[kCount][kAhead / 4];
      OUTRIDER_UNROLLED
      for (int n = 0; n < kAhead; ++n) pieces[n] = read<Piece>(from + (at + n) * kPitch);
      OUTRIDER_UNROLLED
      for (int i = 0; i < kCount; ++i) {
        OUTRIDER_UNROLLED
        for (int n = 0; n < kAhead / 4; ++n) {
          by[i][n] = read<FourFloats>(weights + i * kAttentionPart + at + 4 * n);
        }
      }
      OUTRIDER_UNROLLED
      for (int n = 0; n < kAhead; n += 4) {
        OUTRIDER_UNROLLED
        for (int i = 0; i < kCount; ++i) {
          add_one(pieces[n], by[i][n / 4].x, sums[i]);
          add_one(pieces[n + 1], by[i][n / 4].y, sums[i]);
          add_one(pieces[n + 2], by[i][n / 4].z, sums[i]);
          add_one(pieces[n + 3], by[i][n / 4].w, sums[i]);
        }
      }
    }
    while (at < span.end) add_next();
  }
  static OUTRIDER_DEVICE void add_one(const Piece& piece, float weight, float (&sums)[kEach]) {
    OUTRIDER_UNROLLED
    for (int e = 0; e < kEach; ++e) sums[e] = fused(piece.at(e), weight, sums[e]);
  }

  OUTRIDER_DEVICE float* partial(int query) const {
    const std::int64_t row = look.row(query) * p.task.parts + part;
    return p.task.partials +
           (row * p.task.shape.heads + look.query_head(query)) * (p.stride + kPartialExtra);
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
  using Block = PartBlock<T, kEach>;
  const Attention& task = batch.task;
  const DeviceLimits& limits = device_limits();
  const std::int64_t columns = task.parts * ((batch.stride + Block::kSlice - 1) / Block::kSlice);
  const std::int64_t blocks = columns * task.shape.kv_heads * task.num_bundles;
  std::size_t bytes = Block::kBytes;
  // So that no two share a multiprocessor where each could have its own: a kernel that begins
  // beside the one before it is not spread evenly.
  if (blocks <= limits.multiprocessors) {
    bytes = std::max(bytes, static_cast<std::size_t>(limits.shared / 2));
  }
  launch<&add_part<T, kEach>>(
      {static_cast<unsigned>(columns), static_cast<unsigned>(task.shape.kv_heads),
       static_cast<unsigned>(task.num_bundles), kValueThreads, bytes, start_for(task.num_rows)},
      stream, batch);
}

template <class T>
void run(const AttentionBatch& batch, Stream stream) {
  const Attention& task = batch.task;
  const std::int64_t slices = (batch.stride + 2 * kWarpLanes - 1) / (2 * kWarpLanes);
  const std::int64_t blocks = task.parts * slices * task.shape.kv_heads * task.num_bundles;
  const bool is_few = 2 * blocks <= device_limits().multiprocessors;
  if (is_few) return run_values<T, 1>(batch, stream);
  run_values<T, 2>(batch, stream);
}

}  // namespace

void attend(const Attention& attention, Stream stream) {
  score_positions(attention, stream);
  const AttentionBatch batch(attention);
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
  launch<&combine_row>({static_cast<unsigned>((groups + kGroups - 1) / kGroups),
                        static_cast<unsigned>(attention.num_rows), 1, kCombineThreads, 0,
                        start_for(attention.num_rows)},
                       stream, row);
}

}  // namespace outrider::cuda
