// When to try the verifier again: exponential back-off with jitter, within a bounded outage.
//
// An outage begins when the link fails and ends with the next verdict; until then failures
// add up, so a server that accepts and dies again does not keep the edge waiting for ever.
//
// Thread rule: pure; owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "common/base/clock.h"

namespace outrider {

class Reconnector final {
 public:
  // timeout: the longest outage. jitter_seed: any number; edges should differ in it, so that a
  // restarted server is not stormed.
  Reconnector(Duration timeout, std::uint64_t jitter_seed)
      : timeout_(timeout), jitter_(jitter_seed) {}

  // The link failed: when to try next, or nothing if the outage would last too long. The verifier
  // may have asked for a delay.
  std::optional<TimePoint> on_failure(TimePoint now, Duration asked_delay);

  // The verifier decides again.
  void on_verdict();

  // When to give up; nothing while all is well.
  std::optional<TimePoint> deadline() const;

 private:
  const Duration timeout_;
  std::mt19937_64 jitter_;
  std::optional<TimePoint> outage_began_;
  int failures_ = 0;
};

}  // namespace outrider
