// Attention of many rows over one head of keys and values, block by block of 64 positions with a
// running maximum ("online softmax").
//
// A block's keys are transposed once, so that a register holds one element of 16 positions' keys,
// for all rows that see the same slots; a score sums its products in order of the elements. Blocks
// begin at multiples of 64 of the absolute position and are processed in order; parts of
// kAttentionPart absolute positions are combined in order. So the bits depend only on the positions
// seen: not on slot numbers, the split of the prompt into passes, other rows, or the number of
// threads. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <limits>

#include "common/engine/model/cpu/kernels/rowwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/model/cpu/kernels/attention.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/base/vector_math-inl.h"
#include "common/engine/model/cpu/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

constexpr std::int64_t kBlock = kKvPageSlots;
constexpr int kTileQueries = 4;
// Rows of the next block prefetched during the transposition of four keys.
constexpr int kPrefetchedPerStep = 2;
// Lanes of 16 positions, or of 16 elements of values, in a tile: as many as fit the registers.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileWidth = 4;
#else
constexpr int kTileWidth = 1;
#endif

// The part of a block of positions that a row sees, counted from the block's first.
struct Span {
  std::int64_t begin;
  std::int64_t end;
  friend bool operator==(const Span&, const Span&) = default;
};

// The keys of a block's slots, transposed, and the addresses of their values.
template <class T>
class Block {
 public:
  explicit Block(const AttentionTask& task) : task_(task) {}

  // Whether these slots can be added without changing the present ones.
  bool agrees(const std::int32_t* slots, std::int64_t count) const {
    return first_difference(slots, count) == std::min(count, count_);
  }

  // Announces the next block, of this task or the one that follows. It is prefetched during the
  // present one, because each page of a head is a separate stream.
  void expect(const CellsAhead& next) {
    next_ = next;
    left_ = 2 * std::max<std::int64_t>(next.count, 0);
  }

  // Rows of keys and values of the next block that are not prefetched yet.
  std::int64_t left() const { return left_; }

  // Prefetches one row. Prefetching all at once would queue the requests, and leave memory idle
  // while this block is computed.
  HWY_INLINE void prefetch_next() {
    if (left_ == 0) return;
    --left_;
    const void* from = left_ % 2 == 0 ? next_.keys : next_.values;
    prefetch(row_of(from, next_.cells[left_ / 2]), row_bytes());
  }

  void take(const std::int32_t* slots, std::int64_t count) {
    const std::int64_t same = first_difference(slots, count);
    if (same == count && count <= count_) return;
    for (std::int64_t i = same; i < count; ++i) {
      slots_[i] = slots[i];
      values_[i] = row_of(task_.values, slots[i]);
    }
    count_ = count;
    for (std::int64_t i = same / 4 * 4; i < count; i += 4) transpose_four(i);
  }

  const float* transposed() const { return transposed_; }  // [head_stride, 64]
  const T* const* values() const { return values_; }

 private:
  std::int64_t first_difference(const std::int32_t* slots, std::int64_t count) const {
    const std::int64_t most = std::min(count, count_);
    return std::mismatch(slots, slots + most, slots_).first - slots;
  }

  const T* row_of(const void* base, std::int32_t slot) const {
    const std::int64_t page = slot / kKvPageSlots, at = slot % kKvPageSlots;
    return static_cast<const T*>(base) + page * task_.page_stride + at * task_.head_stride;
  }

  // Positions i .. i+3; beyond the last one it repeats the last, and the result is ignored.
  HWY_INLINE void transpose_four(std::int64_t i) {
    const PartTag d;
    const hn::Repartition<double, PartTag> pairs;
    const T* key[4];
    for (std::int64_t c = 0; c < 4; ++c) {
      key[c] = row_of(task_.keys, slots_[std::min(i + c, count_ - 1)]);
    }
    for (int c = 0; c < kPrefetchedPerStep; ++c) prefetch_next();
    for (std::int64_t k = 0; k < task_.head_stride; k += kPartLanes) {
      const auto at = static_cast<std::size_t>(k);
      const Part a = load_part(key[0], at), b = load_part(key[1], at);
      const Part c = load_part(key[2], at), e = load_part(key[3], at);
      const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
      const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
      const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
      float* to = transposed_ + k * kBlock + i;
      store_quads(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), to);
      store_quads(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), to + kBlock);
      store_quads(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), to + 2 * kBlock);
      store_quads(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), to + 3 * kBlock);
    }
  }

  // Each four lanes hold one element of four keys; the next four lanes, the element four further.
  template <class Vector>
  static HWY_INLINE void store_quads(Vector vector, float* to) {
    const hn::DFromV<Vector> d;
    if constexpr (hn::MaxLanes(d) == 4) {
      hn::StoreU(vector, d, to);
    } else {
      const hn::Half<decltype(d)> half;
      store_quads(hn::LowerHalf(half, vector), to);
      store_quads(hn::UpperHalf(half, vector),
                  to + static_cast<std::int64_t>(hn::MaxLanes(d)) / 2 * kBlock);
    }
  }

  std::size_t row_bytes() const { return static_cast<std::size_t>(task_.head_stride) * sizeof(T); }

  const AttentionTask& task_;
  std::int64_t count_ = 0;
  CellsAhead next_;
  std::int64_t left_ = 0;
  std::int32_t slots_[kBlock];
  const T* values_[kBlock];
  alignas(64) float transposed_[kMaxHeadStride * kBlock];
};

// Queries that see the same span of the same slots.
struct Batch {
  static constexpr int kMost = 64;
  int count = 0;
  Span span = {0, 0};
  const float* queries[kMost];
  float* partials[kMost];  // out [head_stride], maximum, sum
};

// scores[q][position] = scale * query . key; -infinity where not seen.
template <int kQueries, class T>
HWY_INLINE void compute_scores(const AttentionTask& task, const Batch& batch, int first,
                               Block<T>& block, std::int64_t prefetches, float (*scores)[kBlock]) {
  const PartTag d;
  const float* const keys = block.transposed();
  for (std::int64_t at = 0; at < kBlock; at += kTileWidth * kLanes) {
    Lanes sums[kQueries][kTileWidth];
    for (auto& row : sums) {
      for (Lanes& sum : row) sum = zero_lanes();
    }
    for (std::int64_t k = 0; k < task.head_stride; ++k, --prefetches) {
      if (prefetches > 0) block.prefetch_next();
      Lanes key[kTileWidth];
      for (int w = 0; w < kTileWidth; ++w) key[w] = load_lanes(keys + k * kBlock + at + w * kLanes);
      for (int q = 0; q < kQueries; ++q) {
        const Part element = hn::Set(d, batch.queries[first + q][k]);
        for (int w = 0; w < kTileWidth; ++w) {
          for (int p = 0; p < kParts; ++p) {
            Part& sum = sums[q][w].part[p];
            sum = hn::MulAdd(key[w].part[p], element, sum);
          }
        }
      }
    }
    for (int q = 0; q < kQueries; ++q) {
      for (int w = 0; w < kTileWidth; ++w) {
        for (Part& part : sums[q][w].part) part = hn::Mul(part, hn::Set(d, task.scale));
        store_lanes(sums[q][w], scores[q] + at + w * kLanes);
      }
    }
  }
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  for (int q = 0; q < kQueries; ++q) {
    std::fill(scores[q], scores[q] + batch.span.begin, kUnseen);
    std::fill(scores[q] + batch.span.end, scores[q] + kBlock, kUnseen);
  }
}

// Turns scores into weights e^(score - maximum), and returns the factor for older weights. running:
// the maximum and the sum so far.
HWY_INLINE float take_block(float* scores, float* running) {
  const PartTag d;
  Part largest = hn::Set(d, running[0]);
  for (std::int64_t i = 0; i < kBlock; i += kPartLanes) {
    largest = hn::Max(largest, hn::LoadU(d, scores + i));
  }
  const float maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
  Lanes sums = zero_lanes();
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    Lanes weights = load_lanes(scores + i);
    for (Part& part : weights.part) part = vector_exp(d, hn::Sub(part, hn::Set(d, maximum)));
    store_lanes(weights, scores + i);
    for (int p = 0; p < kParts; ++p) sums.part[p] = hn::Add(sums.part[p], weights.part[p]);
  }
  const float shrink = hn::GetLane(vector_exp(d, hn::Set(d, running[0] - maximum)));
  running[0] = maximum;
  running[1] = running[1] * shrink + sum_lanes(sums);
  return shrink;
}

// out = out * shrink + the sum of weight * value over the span, for kWidth * 16 elements from k on.
template <int kQueries, int kWidth, class T>
HWY_INLINE void add_values(const Batch& batch, int first, Block<T>& block, std::int64_t prefetches,
                           std::int64_t k, const float (*weights)[kBlock], const float* shrink) {
  const PartTag d;
  const T* const* const values = block.values();
  Lanes sums[kQueries][kWidth];
  for (int q = 0; q < kQueries; ++q) {
    for (int w = 0; w < kWidth; ++w) {
      sums[q][w] = load_lanes(batch.partials[first + q] + k + w * kLanes);
      for (Part& part : sums[q][w].part) part = hn::Mul(part, hn::Set(d, shrink[q]));
    }
  }
  for (std::int64_t at = batch.span.begin; at < batch.span.end; ++at, --prefetches) {
    if (prefetches > 0) block.prefetch_next();
    for (int w = 0; w < kWidth; ++w) {
      for (int p = 0; p < kParts; ++p) {
        const auto element = static_cast<std::size_t>(k + w * kLanes + p * kPartLanes);
        const Part value = load_part(values[at], element);
        for (int q = 0; q < kQueries; ++q) {
          Part& sum = sums[q][w].part[p];
          sum = hn::MulAdd(value, hn::Set(d, weights[q][at]), sum);
        }
      }
    }
  }
  for (int q = 0; q < kQueries; ++q) {
    for (int w = 0; w < kWidth; ++w) {
      store_lanes(sums[q][w], batch.partials[first + q] + k + w * kLanes);
    }
  }
}

// scores = cap * tanh(scores / cap), where seen. Apart, because few models need it.
HWY_NOINLINE void cap_scores(float* scores, const Span& span, float cap) {
  const PartTag d;
  alignas(64) float capped[kBlock];
  for (std::int64_t i = 0; i < kBlock; i += kPartLanes) {
    const Part scaled = hn::Div(hn::LoadU(d, scores + i), hn::Set(d, cap));
    hn::StoreU(hn::Mul(vector_tanh(d, scaled), hn::Set(d, cap)), d, capped + i);
  }
  std::copy(capped + span.begin, capped + span.end, scores + span.begin);
}

template <int kQueries, class T>
HWY_NOINLINE void attend_tile(const AttentionTask& task, const Batch& batch, int first,
                              Block<T>& block) {
  alignas(64) float scores[kQueries][kBlock];
  float shrink[kQueries];
  // This tile's share of the remaining prefetches; half of it is done with the values.
  const std::int64_t tiles = (batch.count - first + kTileQueries - 1) / kTileQueries;
  const std::int64_t prefetches = (block.left() + 2 * tiles - 1) / (2 * tiles);
  compute_scores<kQueries>(task, batch, first, block, prefetches, scores);
  if (task.cap > 0.0f) {
    for (float* row : scores) cap_scores(row, batch.span, task.cap);
  }
  for (int q = 0; q < kQueries; ++q) {
    shrink[q] = take_block(scores[q], batch.partials[first + q] + task.head_stride);
  }
  std::int64_t k = 0;
  for (; k + kTileWidth * kLanes <= task.head_stride; k += kTileWidth * kLanes) {
    add_values<kQueries, kTileWidth>(batch, first, block, prefetches, k, scores, shrink);
  }
  for (; k < task.head_stride; k += kLanes) {
    add_values<kQueries, 1>(batch, first, block, prefetches, k, scores, shrink);
  }
}

template <class T, int kQueries = kTileQueries>
HWY_INLINE void attend_batch(const AttentionTask& task, Batch& batch, Block<T>& block) {
  int first = 0;
  if constexpr (kQueries == kTileQueries) {
    for (; first + kQueries <= batch.count; first += kQueries) {
      attend_tile<kQueries>(task, batch, first, block);
    }
  } else if (batch.count % kTileQueries == kQueries) {
    attend_tile<kQueries>(task, batch, batch.count - kQueries, block);
  }
  if constexpr (kQueries > 1) attend_batch<T, kQueries - 1>(task, batch, block);
  if constexpr (kQueries == kTileQueries) batch.count = 0;
}

template <class T>
void attend(const AttentionTask& task) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t begin = kNone, end = 0;
  for (std::int64_t r = 0; r < task.num_rows; ++r) {
    const AttentionRow& row = task.rows[r];
    begin = std::min(begin, row.begin);
    end = std::max(end, row.end);
    for (std::int64_t q = 0; q < task.num_queries; ++q) {
      float* partial = row.partials + q * task.partial_stride;
      std::fill(partial, partial + task.head_stride, 0.0f);
      partial[task.head_stride] = -std::numeric_limits<float>::infinity();
      partial[task.head_stride + 1] = 0.0f;
    }
  }
  Batch batch;
  for (std::int64_t first = begin / kBlock * kBlock; first < end; first += kBlock) {
    Block<T> block(task);
    const CellsAhead ahead{task.keys, task.values, task.rows[0].path + first + kBlock,
                           std::min(task.rows[0].end - first - kBlock, kBlock)};
    block.expect(first + kBlock < end ? ahead : task.next);
    for (std::int64_t r = 0; r < task.num_rows; ++r) {
      const AttentionRow& row = task.rows[r];
      const Span span{std::max<std::int64_t>(row.begin - first, 0),
                      std::min(row.end - first, kBlock)};
      if (span.begin >= span.end) continue;
      const std::int32_t* slots = row.path + first;
      const bool fits = batch.count + task.num_queries <= Batch::kMost;
      if (!fits || span != batch.span || !block.agrees(slots, span.end)) {
        attend_batch(task, batch, block);
      }
      block.take(slots, span.end);
      batch.span = span;
      for (std::int64_t q = 0; q < task.num_queries; ++q) {
        batch.queries[batch.count] = row.queries + q * task.head_stride;
        batch.partials[batch.count++] = row.partials + q * task.partial_stride;
      }
    }
    attend_batch(task, batch, block);
  }
}

}  // namespace

void attention(const AttentionTask& task) {
  if (task.is_bf16) return attend<hwy::bfloat16_t>(task);
  attend<float>(task);
}

void combine_attention(const float* partials, std::int64_t parts, std::int64_t part_stride,
                       std::int64_t head_stride, float* out) {
  const PartTag d;
  float maximum = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < parts; ++i) {
    maximum = std::max(maximum, partials[i * part_stride + head_stride]);
  }
  std::fill(out, out + head_stride, 0.0f);
  float sum = 0.0f;
  for (std::int64_t i = 0; i < parts; ++i) {
    const float* partial = partials + i * part_stride;
    const Part shrink = vector_exp(d, hn::Set(d, partial[head_stride] - maximum));
    sum = sum + partial[head_stride + 1] * hn::GetLane(shrink);
    for (std::int64_t k = 0; k < head_stride; k += kPartLanes) {
      hn::StoreU(hn::MulAdd(hn::LoadU(d, partial + k), shrink, hn::LoadU(d, out + k)), d, out + k);
    }
  }
  for (std::int64_t k = 0; k < head_stride; ++k) out[k] = out[k] / sum;
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

AttentionFunction attention(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, attention);
}
CombineAttentionFunction combine_attention(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, combine_attention);
}

}  // namespace outrider
#endif  // HWY_ONCE
