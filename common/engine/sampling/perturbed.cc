// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/perturbed.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "common/base/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/engine/sampling/perturbed.cc"
#include "hwy/foreach_target.h"  // compiles this file again for each instruction set
#include "hwy/highway.h"

#include "common/engine/sampling/noise-inl.h"

#ifndef OUTRIDER_PERTURBED_TYPES  // once, whatever the number of instruction sets
#define OUTRIDER_PERTURBED_TYPES
namespace outrider {

// Tokens of one group whose scores are not below the bar.
struct Contenders {
  std::size_t count = 0;
  std::array<std::size_t, kNoiseGroup> places;
  std::array<float, kNoiseGroup> scores;
};

// A row, what it is scaled by, and the largest score before noise of each group.
struct GroupedRow {
  PerturbedRow row;
  float max = 0;
  std::span<const float> tops;
};

}  // namespace outrider
#endif

HWY_BEFORE_NAMESPACE();
namespace outrider::HWY_NAMESPACE {
#if OUTRIDER_VECTOR_CODE

// The logits of a group; the last group of a row is padded with -infinity in `copy`.
HWY_INLINE const float* group_logits(std::span<const float> logits, std::size_t group,
                                     float* copy) {
  const std::size_t first = group * kNoiseGroup;
  const float* at = logits.data() + first;
  if (first + kNoiseGroup <= logits.size()) return at;
  std::fill_n(copy, kNoiseGroup, -std::numeric_limits<float>::infinity());
  std::copy(at, logits.data() + logits.size(), copy);
  return copy;
}

// The largest logit of each group, as max_logit() finds it.
void find_group_maxima(std::span<const float> logits, float* maxima, std::size_t groups) {
  const Floats d;
  HWY_ALIGN float copy[kNoiseGroup];
  for (std::size_t group = 0; group < groups; ++group) {
    const float* at = group_logits(logits, group, copy);
    FloatVector best = cleaned(hn::LoadU(d, at));
    for (std::size_t i = hn::Lanes(d); i < kNoiseGroup; i += hn::Lanes(d)) {
      best = hn::Max(best, cleaned(hn::LoadU(d, at + i)));
    }
    maxima[group] = hn::GetLane(hn::MaxOfLanes(d, best));
  }
}

// Random words of the tokens at places lane, 16 + lane, 32 + lane and 48 + lane of a group.
HWY_INLINE Block group_words(const PhiloxKeys& keys, const PerturbedRow& row, std::size_t group,
                             std::size_t lane) {
  if (row.tokens.empty()) {
    return random_blocks_from(keys, static_cast<std::uint32_t>(group * 16 + lane));
  }
  const Words dw;
  const TokenId* tokens = row.tokens.data() + group * kNoiseGroup + lane;
  const hn::RebindToSigned<Floats> di;
  const auto words_of = [&](std::size_t word) HWY_ATTR {
    return random_words_at(keys, hn::BitCast(dw, hn::LoadU(di, tokens + word * 16)));
  };
  // Filled at once: g++ gives a constructor that it adds itself no vectors of Arm's.
  return {{words_of(0), words_of(1), words_of(2), words_of(3)}};
}

// Adds what reaches the bar of `lanes` tokens from this place on.
HWY_INLINE void score_lanes(const GroupedRow& grouped, const float* logits, std::size_t place,
                            WordVector words, float bar, Contenders& found) {
  const Floats d;
  const FloatVector below = hn::Sub(cleaned(hn::LoadU(d, logits)), hn::Set(d, grouped.max));
  const FloatVector scaled = hn::Div(below, hn::Set(d, grouped.row.temperature));
  HWY_ALIGN float scores[16];
  hn::StoreU(hn::Add(scaled, gumbel(words)), d, scores);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
    if (!(scores[i] >= bar) || scores[i] == -std::numeric_limits<float>::infinity()) continue;
    found.places[found.count] = place + i;
    found.scores[found.count++] = scores[i];
  }
}

HWY_INLINE void score_group(const PhiloxKeys& keys, const GroupedRow& grouped, std::size_t group,
                            float bar, Contenders& found) {
  const Floats d;
  const FloatVector top = hn::Set(d, grouped.tops[group]);
  const FloatVector needed = hn::Set(d, bar);
  const auto can_reach = [&](WordVector words) HWY_ATTR {
    return !hn::AllFalse(d, hn::Ge(hn::Add(top, noise_bound(words)), needed));
  };
  for (std::size_t lane = 0; lane < 16; lane += hn::Lanes(d)) {
    const Block block = group_words(keys, grouped.row, group, lane);
    const WordVector least =
        hn::Min(hn::Min(block.words[0], block.words[1]), hn::Min(block.words[2], block.words[3]));
    if (HWY_LIKELY(!can_reach(least))) continue;
    HWY_ALIGN float copy[kNoiseGroup];
    const float* logits = group_logits(grouped.row.logits, group, copy);
    for (std::size_t word = 0; word < 4; ++word) {
      const std::size_t at = word * 16 + lane;
      if (!can_reach(block.words[word])) continue;
      score_lanes(grouped, logits + at, group * kNoiseGroup + at, block.words[word], bar, found);
    }
  }
}

// Leaves in `found` what reaches the bar of the first of the groups [begin, end) that holds any;
// returns the group after it. Contenders come in no order.
std::size_t find_contenders(const GroupedRow& grouped, std::size_t begin, std::size_t end,
                            float bar, Contenders& found) {
  const PhiloxKeys keys(grouped.row.key);
  found.count = 0;
  while (begin < end && found.count == 0) {
    const float top = grouped.tops[begin];
    const bool excluded =
        top + kLargestNoise < bar || top == -std::numeric_limits<float>::infinity();
    if (!excluded) score_group(keys, grouped, begin, bar, found);
    ++begin;
  }
  return begin;
}

#endif
}  // namespace outrider::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {

// The bar is kept at the last one of this many best, which costs less than the tokens that a lower
// bar lets in.
constexpr std::size_t kFew = 32;

void select_perturbed(const PerturbedRow& row, std::size_t count, std::vector<SelectKey>& keys) {
  OUTRIDER_CHECK(row.temperature > 0);
  static thread_local std::vector<float> tops;  // so that a decoding step allocates nothing
  static thread_local std::vector<SelectKey> seeds;
  BestKeys best(std::min(count, row.logits.size()), keys);
  const VectorTarget target = best_vector_target();
  const std::size_t groups = (row.logits.size() + kNoiseGroup - 1) / kNoiseGroup;
  tops.resize(groups);
  OUTRIDER_VECTOR_FUNCTION(target, find_group_maxima)(row.logits, tops.data(), groups);
  const float max = max_logit(tops);
  if (count == 0 || max == -std::numeric_limits<float>::infinity()) return;
  scale_logits(tops, max, row.temperature, tops);
  Contenders found;
  const auto visit = [&](std::size_t begin, std::size_t end) {
    const std::size_t next = OUTRIDER_VECTOR_FUNCTION(target, find_contenders)(
        {row, max, tops}, begin, end, best.bar(), found);
    for (std::size_t i = 0; i < found.count; ++i) {
      if (found.scores[i] >= best.bar()) best.offer(found.scores[i], found.places[i]);
    }
    if (count <= kFew && found.count > 0) best.settle();
    return next;
  };
  // The likeliest tokens first: what they reach excludes most of the others.
  select_best(tops, std::min(count, groups), seeds);
  for (const SelectKey seed : seeds) {
    const auto group = static_cast<std::size_t>(token_of(seed));
    visit(group, group + 1);
    tops[group] = -std::numeric_limits<float>::infinity();  // it is done
  }
  best.settle();
  for (std::size_t group = 0; group < groups;) group = visit(group, groups);
  best.sort();
}

}  // namespace outrider
#endif
