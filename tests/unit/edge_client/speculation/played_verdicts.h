// Times that a controller may have seen, and verdicts that it gets, for its tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "edge_client/speculation/controller.h"

namespace outrider {

struct Times {
  double step_ms = 1;
  double pass_ms = 20;
  double row_ms = 0;
  double round_trip_ms = 10;
};

inline Timings timings(const Times& times) {
  Timings known;
  for (std::size_t rows = 1; rows <= 5; ++rows) {
    known.draft_step.add(1, from_ms(times.step_ms));
    known.pass.add(rows, from_ms(times.pass_ms + times.row_ms * static_cast<double>(rows - 1)));
  }
  known.on_request_served(from_ms(times.round_trip_ms));
  return known;
}

// Verdicts of a draft of which so many of four tokens stand, taking so long each.
inline void play(Controller& controller, int verdicts, std::size_t accepted, double ms,
                 TimePoint& now, const Timings& known = {}) {
  for (int i = 0; i < verdicts; ++i) {
    now += from_ms(ms);
    controller.on_verdict(accepted + 1, {.depth = 4, .stood = accepted}, now, known);
  }
}

// Verdicts of the target alone, taking so long each.
inline void play_alone(Controller& controller, int verdicts, double ms, TimePoint& now,
                       const Timings& known = {}) {
  for (int i = 0; i < verdicts; ++i) {
    now += from_ms(ms);
    controller.on_verdict(1, {}, now, known);
  }
}

}  // namespace outrider
