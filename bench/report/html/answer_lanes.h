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
  std::vector<LaneMoment> reports;   // of exits, as they were heard
  std::vector<LaneMoment> verdicts;  // as they were heard
  // Of the target, [i] the one of verdicts[i]: placed by that, the measured round trip and the
  // times that the verdict carries.
  std::vector<LaneSpan> passes;
};

// DATA_LOSS for what is no such trace. An answer without a verdict has no lanes.
Result<AnswerLanes> lanes_of(const EdgeAnswer& answer);

}  // namespace outrider
