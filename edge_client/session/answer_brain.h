// What decides one answer, as the loops see it that drive it (shell/runner.h, bench/sim).
//
//   start (handle)* until a Finish
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/clock.h"
#include "edge_client/session/events.h"

namespace outrider {

class AnswerBrain {
 public:
  virtual ~AnswerBrain() = default;
  AnswerBrain(const AnswerBrain&) = delete;
  AnswerBrain& operator=(const AnswerBrain&) = delete;

  virtual SessionActions start(TimePoint now) = 0;
  virtual SessionActions handle(const SessionEvent& event, TimePoint now) = 0;
  // When to send a Tick; TimePoint::max() if none is needed.
  virtual TimePoint next_tick() const = 0;

 protected:
  AnswerBrain() = default;
};

}  // namespace outrider
