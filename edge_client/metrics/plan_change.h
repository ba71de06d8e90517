// A change of how an answer speculates, as figures and logs keep it.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"

namespace outrider {

// What the controller changed, and why.
struct PlanChange {
  std::uint64_t token = 0;  // of the answer, before which it was
  bool speculates = true;
  int gamma = 0;
  int wait_for = 0;
  Duration patience{0};  // the longest wait for them
  int fan_out = 0;
  bool exits = false;
  std::string reason;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("token", self.token);
    field("speculates", self.speculates);
    field("gamma", self.gamma);
    field("wait_for", self.wait_for);
    field("patience_ms", self.patience);
    field("fan_out", self.fan_out);
    field("exits", self.exits);
    field("reason", self.reason);
  }
};

}  // namespace outrider
