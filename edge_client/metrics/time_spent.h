// Where an answer's time went, from verdict to verdict: what of it the target computed, what the
// verifier waited for drafting, what messages were under way, and what is left.
//
// Thread rule: a value; part of DecodingStats. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/decoding/protocol/messages.h"

namespace outrider {

struct TimeSpent {
  Duration first{0};     // until the first verdict: connecting, the prompt, the first pass
  Duration drafting{0};  // the verifier had nothing to do until a round was drafted
  Duration link{0};      // the verifier had nothing to do while a round or its verdict travelled
  Duration target{0};    // passes
  Duration queued{0};    // passes that waited for other sessions'
  Duration other{0};     // the rest: patience, scheduling, the programs themselves

  Duration total() const { return first + drafting + link + target + queued + other; }
  TimeSpent& operator+=(const TimeSpent& more);

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("first", self.first);
    field("target", self.target);
    field("queued", self.queued);
    field("drafting", self.drafting);
    field("link", self.link);
    field("other", self.other);
  }
};

class TimeKeeper final {
 public:
  explicit TimeKeeper(TimeSpent& spent) : spent_(spent) {}

  void on_start(TimePoint now) { last_verdict_ = now; }
  // A round left on which the verifier waits.
  void on_round_sent(TimePoint now) { round_sent_ = now; }
  // round_trip: as measured. Returns what it added: the time since the verdict before.
  TimeSpent on_verdict(const PassTimings& timings, Duration round_trip, TimePoint now);

 private:
  TimeSpent& spent_;
  TimePoint last_verdict_{};
  std::optional<TimePoint> round_sent_;
  bool first_ = true;
};

}  // namespace outrider
