// Attention of one row, in blocks of 64 positions with a running maximum ("online softmax").
//
// A block's borders are multiples of 64 of the absolute position, blocks come in position order,
// and slots are looked up through the row's path. So the bits depend on the positions seen alone:
// not on where slots lie, how the prompt was cut into passes, or which rows stand beside.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "common/model/cpu/rowwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/model/cpu/attention.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/base/vector_math-inl.h"
#include "common/model/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE
namespace {

constexpr std::int64_t kBlock = 64;
constexpr int kScoreColumns = 4;

// The part of a block of positions that a row sees.
struct Span {
  std::int64_t block;  // first position of the block
  std::int64_t begin;
  std::int64_t end;
};

// scores[position - span.block] = scale * query . key, for one query; -infinity where not seen.
void compute_scores(const AttentionTask& task, const float* query, Span span, float* scores) {
  std::fill(scores, scores + kBlock, -std::numeric_limits<float>::infinity());
  for (std::int64_t at = span.begin; at < span.end; at += kScoreColumns) {
    const float* key[kScoreColumns];
    for (int c = 0; c < kScoreColumns; ++c) {
      key[c] = task.keys + task.path[std::min(at + c, span.end - 1)] * task.slot_stride;
    }
    Lanes sums[kScoreColumns];
    for (Lanes& sum : sums) sum = zero_lanes();
    for (std::int64_t k = 0; k < task.head_stride; k += kLanes) {
      const Lanes value = load_lanes(query + k);
      for (int c = 0; c < kScoreColumns; ++c) {
        sums[c] = fused(load_lanes(key[c] + k), value, sums[c]);
      }
    }
    const Quad dots = sum_quads(fold(sums[0]), fold(sums[1]), fold(sums[2]), fold(sums[3]));
    float four[kScoreColumns];
    hn::StoreU(hn::Mul(dots, hn::Set(QuadTag(), task.scale)), QuadTag(), four);
    const std::int64_t count = std::min<std::int64_t>(kScoreColumns, span.end - at);
    std::copy(four, four + count, scores + (at - span.block));
  }
}

// A running softmax: weights so far sum to `sum` relative to e^maximum.
struct Running {
  float maximum = -std::numeric_limits<float>::infinity();
  float sum = 0.0f;
};

// Turns scores into weights e^(score - maximum), and returns by how much older weights shrink.
float take_block(float* scores, Running& running) {
  const PartTag d;
  Part largest = hn::Set(d, running.maximum);
  for (std::int64_t i = 0; i < kBlock; i += kPartLanes) {
    largest = hn::Max(largest, hn::LoadU(d, scores + i));
  }
  const float maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
  Lanes sums = zero_lanes();
  for (std::int64_t i = 0; i < kBlock; i += kLanes) {
    Lanes weights = load_lanes(scores + i);
    for (Part& part : weights.part) {
      part = vector_exp(d, hn::Sub(part, hn::Set(d, maximum)));
    }
    store_lanes(weights, scores + i);
    for (int p = 0; p < kParts; ++p) sums.part[p] = hn::Add(sums.part[p], weights.part[p]);
  }
  const float shrink = hn::GetLane(vector_exp(d, hn::Set(d, running.maximum - maximum)));
  running.maximum = maximum;
  running.sum = running.sum * shrink + sum_lanes(sums);
  return shrink;
}

// out = out * shrink + the sum of weight * value over the span, 16 elements of the head at a time.
void add_values(const AttentionTask& task, const float* weights, float shrink, Span span,
                float* out) {
  const PartTag d;
  for (std::int64_t k = 0; k < task.head_stride; k += kLanes) {
    Lanes sum = load_lanes(out + k);
    for (Part& part : sum.part) part = hn::Mul(part, hn::Set(d, shrink));
    for (std::int64_t at = span.begin; at < span.end; ++at) {
      const float* value = task.values + task.path[at] * task.slot_stride + k;
      const Part weight = hn::Set(d, weights[at - span.block]);
      for (int p = 0; p < kParts; ++p) {
        sum.part[p] = hn::MulAdd(hn::LoadU(d, value + p * kPartLanes), weight, sum.part[p]);
      }
    }
    store_lanes(sum, out + k);
  }
}

}  // namespace

void attention(const AttentionTask& task) {
  Running running[kMaxSharedQueries];
  std::fill(task.out, task.out + task.num_queries * task.head_stride, 0.0f);
  for (std::int64_t block = task.begin / kBlock * kBlock; block < task.end; block += kBlock) {
    const Span span{block, std::max(block, task.begin), std::min(block + kBlock, task.end)};
    for (std::int64_t q = 0; q < task.num_queries; ++q) {
      float scores[kBlock];
      compute_scores(task, task.queries + q * task.head_stride, span, scores);
      const float shrink = take_block(scores, running[q]);
      add_values(task, scores, shrink, span, task.out + q * task.head_stride);
    }
  }
  for (std::int64_t q = 0; q < task.num_queries; ++q) {
    float* out = task.out + q * task.head_stride;
    for (std::int64_t k = 0; k < task.head_stride; ++k) out[k] = out[k] / running[q].sum;
  }
}

#endif  // OUTRIDER_VECTOR_CODE
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

AttentionFunction attention(VectorTarget target) {
  return OUTRIDER_VECTOR_FUNCTION(target, attention);
}

}  // namespace outrider
#endif  // HWY_ONCE
