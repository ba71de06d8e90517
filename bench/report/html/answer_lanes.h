// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/harness/answer.h"
#include "common/base/status.h"

namespace outrider {

// The time line of one answer on both sides, from the Chrome trace that its edge recorded
// (edge_client/metrics/timeline.h).

// Times in milliseconds since the request.
struct LaneSpan {
  double begin_ms = 0;
  double end_ms = 0;
  std::string what;
};
struct LaneMoment {
  double at_ms = 0;
  std::string what;
};

struct AnswerLanes {
  std::vector<LaneSpan> drafting;    // steps of the draft
  std::vector<LaneMoment> rounds;    // that left with nodes
  std::vector<LaneMoment> reports;   // exit reports, when the edge received them
  std::vector<LaneMoment> verdicts;  // when the edge received them
  // Passes of the target; entry i belongs to verdicts[i]. Their times follow from that verdict's
  // arrival, the measured round trip and the times in the verdict.
  std::vector<LaneSpan> passes;
};

// DATA_LOSS for anything but such a trace. An answer without a verdict has no lanes.
Result<AnswerLanes> lanes_of(const EdgeAnswer& answer);

}  // namespace outrider
