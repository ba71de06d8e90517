// The results of drafting ahead (FSD section 4.2: the cache miss rate r is misses / verdicts, with
// partial and late hits counted apart).
//
// Thread rule: a value; part of DecodingStats. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/decoding/drafting/hypothesis_tree.h"

namespace outrider {

// Sums of counts that are kept by an index: a depth, a branch, an exit.
using Counts = std::vector<std::uint64_t>;

inline void add_counts(Counts& sums, const Counts& more) {
  if (sums.size() < more.size()) sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

// [depth - 1][branch]
using CountsByBranch = std::vector<Counts>;

inline void add_counts(CountsByBranch& sums, const CountsByBranch& more) {
  if (sums.size() < more.size()) sums.resize(more.size());
  for (std::size_t i = 0; i < more.size(); ++i) add_counts(sums[i], more[i]);
}

// The findings of a verdict: one name for each counter below.
enum class CacheHit : std::uint8_t { kWhole, kPartial, kLate, kMiss };

// wanted: drafted tokens of a whole round.
CacheHit judge(const CacheLookup& found, std::size_t wanted);

// "the exit after layer 4", for the reader; layers: Opened.exits.
std::string exit_name(std::span<const std::int32_t> layers, std::int32_t exit);

struct PredraftStats {
  std::uint64_t verdicts = 0;        // after which a round was wanted
  std::uint64_t hits = 0;            // the whole round was there
  std::uint64_t partial_hits = 0;    // its beginning was
  std::uint64_t late_hits = 0;       // nothing yet, but the draft was at work on it
  std::uint64_t misses = 0;          // nothing
  std::uint64_t wanted_tokens = 0;   // of those rounds
  std::uint64_t missing_tokens = 0;  // of the wanted ones: not drafted yet at the verdict
  std::vector<std::uint64_t> partial_by_length = {};  // [k - 1]: partial hits with k tokens there
  std::vector<std::uint64_t> hits_by_exit =
      {};  // [exit]: whole, partial and late, named by that exit
  std::vector<std::int32_t> exit_layers = {};  // [exit]: the layer after which it looks
  std::uint64_t hits_by_guess = 0;             // as hits_by_exit, but named by the draft alone

  std::uint64_t synced = 0;        // verdicts whose next pass took what was sent before them
  Duration synced_late{0};         // by how much those came after the pass of their verdict, in all
  std::uint64_t ahead_nodes = 0;   // sent before the verdict that they were for
  std::uint64_t ahead_dead = 0;    // of ahead_nodes: died without having been a row of any pass
  std::uint64_t surplus_rows = 0;  // computed by the verifier beyond the text's and living nodes'

  std::uint64_t reports = 0;          // from exits, taken
  std::uint64_t ignored_reports = 0;  // late, repeated, or senseless
  std::uint64_t evicted_nodes = 0;    // forgotten to keep the cache's bound
  std::uint64_t abandoned_steps = 0;  // of the draft, ended early as a verdict made them obsolete

  // Field by field; exit_layers are those of the first that knows them.
  PredraftStats& operator+=(const PredraftStats& more);

  // Counts a verdict after which `wanted` drafted tokens make a round.
  CacheHit count(const CacheLookup& found, std::size_t wanted);

  // "the exit after layer 4", for the reader.
  std::string exit_name(std::int32_t exit) const { return outrider::exit_name(exit_layers, exit); }

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("verdicts", self.verdicts);
    field("hits", self.hits);
    field("partial_hits", self.partial_hits);
    field("late_hits", self.late_hits);
    field("misses", self.misses);
    field("wanted_tokens", self.wanted_tokens);
    field("missing_tokens", self.missing_tokens);
    field("partial_by_length", self.partial_by_length);
    field("hits_by_exit", self.hits_by_exit);
    field("exit_layers", self.exit_layers);
    field("hits_by_guess", self.hits_by_guess);
    field("synced", self.synced);
    field("synced_late_ms", self.synced_late);
    field("ahead_nodes", self.ahead_nodes);
    field("ahead_dead", self.ahead_dead);
    field("surplus_rows", self.surplus_rows);
    field("reports", self.reports);
    field("ignored_reports", self.ignored_reports);
    field("evicted_nodes", self.evicted_nodes);
    field("abandoned_steps", self.abandoned_steps);
  }
};

}  // namespace outrider
