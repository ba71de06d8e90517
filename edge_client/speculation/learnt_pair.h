// What answers have taught of one server's target, one draft and one device: a later answer begins
// with it.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace outrider {

struct LearntPair {
  std::vector<double> tried;  // by depth of a chain: how often a drafted token was verified there,
  std::vector<double> stood;  // and how often it stood; older ones count less
  double step_ms = 0;         // T_p, of one row; 0: not known
  double rtt_ms = 0;          // 0: not known
  bool speculates = true;     // how the last answer ended
  // Where it did not pay: speculation is tried again probe_in tokens later, be they of this answer
  // or of later ones, and if it fails again, probe_after tokens after that.
  std::uint64_t probe_in = 0;
  std::uint64_t probe_after = 0;
  std::uint64_t answers = 0;      // that taught this

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
  }
};

// Of one draft on one device, by the target's fingerprint.
using LearntPairs = std::map<std::string, LearntPair>;

}  // namespace outrider
