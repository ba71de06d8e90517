// What answers have taught of one server's target, one draft and one device: a later answer begins
// with it.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace outrider {

// What passes of one shape took of late (common/drafting/trees/latency_profile.h).
struct LearntPass {
  std::int32_t rows = 0;
  std::int32_t leaves = 0;
  double ms = 0;
  double weight = 0;

  friend bool operator==(const LearntPass&, const LearntPass&) = default;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("rows", self.rows);
    field("leaves", self.leaves);
    field("ms", self.ms);
    field("weight", self.weight);
  }
};

struct LearntPair {
  static constexpr std::size_t kMaxPasses = 512;

  std::vector<double> tried;  // by depth of a chain: how often a drafted token was verified there,
  std::vector<double> stood;  // and how often it stood; older ones count less
  double step_ms = 0;         // T_p, of one row; 0: not known
  double rtt_ms = 0;          // 0: not known
  bool speculates = true;     // how the last answer ended
  // Where it did not pay: speculation is tried again probe_in tokens later, be they of this answer
  // or of later ones, and if it fails again, probe_after tokens after that.
  std::uint64_t probe_in = 0;
  std::uint64_t probe_after = 0;
  std::uint64_t answers = 0;       // that taught this
  std::vector<LearntPass> passes;  // of trees

  friend bool operator==(const LearntPair&, const LearntPair&) = default;

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
  }
};

// Of one draft on one device, by the target's fingerprint.
using LearntPairs = std::map<std::string, LearntPair>;

}  // namespace outrider
