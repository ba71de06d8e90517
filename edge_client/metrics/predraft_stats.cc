// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/predraft_stats.h"

#include <algorithm>
#include <type_traits>

namespace outrider {
namespace {

void add_at(std::vector<std::uint64_t>& counts, std::size_t index) {
  if (counts.size() <= index) counts.resize(index + 1);
  ++counts[index];
}

}  // namespace

CacheHit judge(const CacheLookup& found, std::size_t wanted) {
  if (found.drafted >= wanted) return CacheHit::kWhole;
  if (found.drafted > 0) return CacheHit::kPartial;
  return found.in_step ? CacheHit::kLate : CacheHit::kMiss;
}

CacheHit PredraftStats::count(const CacheLookup& found, std::size_t wanted) {
  ++verdicts;
  wanted_tokens += wanted;
  missing_tokens += wanted - std::min(wanted, found.drafted);
  const CacheHit hit = judge(found, wanted);
  switch (hit) {
    case CacheHit::kWhole:
      ++hits;
      break;
    case CacheHit::kPartial:
      ++partial_hits;
      add_at(partial_by_length, found.drafted - 1);
      break;
    case CacheHit::kLate:
      ++late_hits;
      break;
    case CacheHit::kMiss:
      ++misses;
      return hit;
  }
  if (found.exit) {
    add_at(hits_by_exit, static_cast<std::size_t>(*found.exit));
  } else {
    ++hits_by_guess;
  }
  return hit;
}

PredraftStats& PredraftStats::operator+=(const PredraftStats& more) {
  std::vector<const std::uint64_t*> counts;
  visit_fields(more, [&](const char*, const auto& field) {
    if constexpr (std::is_same_v<decltype(field), const std::uint64_t&>) counts.push_back(&field);
  });
  std::size_t next = 0;
  visit_fields(*this, [&](const char*, auto& field) {
    if constexpr (std::is_same_v<decltype(field), std::uint64_t&>) field += *counts[next++];
  });
  synced_late += more.synced_late;
  add_counts(partial_by_length, more.partial_by_length);
  add_counts(hits_by_exit, more.hits_by_exit);
  if (exit_layers.empty()) exit_layers = more.exit_layers;
  return *this;
}

std::string exit_name(std::span<const std::int32_t> layers, std::int32_t exit) {
  const auto index = static_cast<std::size_t>(exit);
  if (index >= layers.size()) return "exit " + std::to_string(exit);
  return "the exit after layer " + std::to_string(layers[index]);
}

}  // namespace outrider
