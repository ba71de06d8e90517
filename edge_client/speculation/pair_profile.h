// The profile of a pair of draft and target on one device: what answers have learnt of it. Later
// answers start from it. A strategy reads it in warm_start() and adds to it in save_to().
//
// Thread rule: a value. Units: milliseconds; tokens of answers. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/decoding/drafting/trees/tree_memory.h"
#include "common/decoding/exits/online_calibration.h"

namespace outrider {

struct PairProfile {
  static constexpr std::size_t kMaxPasses = 512;

  // By depth of a chain: how often a drafted token was verified there, and how often it was
  // accepted; older ones count less.
  std::vector<double> tried;
  std::vector<double> stood;
  double step_ms = 0;      // of a draft step of one row; 0: unknown
  double rtt_ms = 0;       // 0: unknown
  bool speculates = true;  // as the last answer ended
  // If speculation did not pay, it is tried again after probe_in tokens, of this answer or of later
  // ones. If it fails then, it is tried again after probe_after more tokens.
  std::uint64_t probe_in = 0;
  std::uint64_t probe_after = 0;
  std::uint64_t answers = 0;               // that have contributed
  std::vector<ShapeTime> passes;           // of trees
  std::vector<ExitCorrection> exits = {};  // of the target
  // EdgeChance::Weights, which pruning learnt; nothing: it did not prune.
  std::optional<std::vector<double>> edge_weights = {};

  friend bool operator==(const PairProfile&, const PairProfile&) = default;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("tried", self.tried);
    field("stood", self.stood);
    field("step_ms", self.step_ms);
    field("rtt_ms", self.rtt_ms);
    field("speculates", self.speculates);
    field("probe_in", self.probe_in);
    field("probe_after", self.probe_after);
    field("answers", self.answers);
    field("passes", self.passes);
    field("exits", self.exits);
    field("edge_weights", self.edge_weights);
  }
};

// By fingerprint of the target, for one draft on one device.
using PairProfiles = std::map<std::string, PairProfile>;

}  // namespace outrider
