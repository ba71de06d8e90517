// The facts about one stream's passes that speculation needs. A new stream begins with a new one.
//
//   (on_round_sent? on_request? on_started on_verdict)*
//
// Thread rule: a value, owned by the speculator; time is an argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/protocol/messages.h"

namespace outrider {

class PassTracker final {
 public:
  // Whether the verifier has what it needs for its next pass; else it waits for a round.
  bool verifier_waits() const { return !has_round_; }
  // It has given a verdict before, so it no longer starts a pass by itself.
  bool past_first_pass() const { return verdicts_ > 0; }
  // A message sent within the time of one pass after this moment arrives before the pass ends.
  TimePoint origin() const { return origin_; }
  // Whether early exits look at the pass that runs, or ran last; nothing if unknown.
  std::optional<bool> has_exits() const { return has_exits_; }

  // A round was sent that the verifier waited for.
  void on_round_sent(TimePoint now);
  // An idle verifier was asked for a pass with nodes up to this id.
  void on_request(NodeId last_id, TimePoint now);
  // The policy now wants exits, or no longer does.
  void on_exits_changed(TimePoint now) { exits_changed_at_ = now; }

  // round_trip: as estimated. If this pass took the round that on_sent_before_verdict() named,
  // returns how long after the end of the pass before it that round arrived.
  std::optional<Duration> on_started(const Started& started, bool wants_exits, Duration round_trip,
                                     TimePoint now);

  // Returns the round trip of the request for the pass, if there was one.
  std::optional<Duration> on_verdict(const PassTimings& timings);
  // After a verdict that does not end the answer. has_round: the verifier goes on by itself.
  void on_next_round(bool has_round, Duration round_trip, TimePoint now);
  // The next round was sent before the verdict that it is for, and reached the verifier this long
  // after the end of the pass of that verdict.
  void on_sent_before_verdict(NodeId first_id, Duration arrived_after_pass) {
    ahead_ = Ahead{first_id, arrived_after_pass};
  }

 private:
  struct Request {
    NodeId last_id;
    TimePoint at;
  };

  struct Ahead {
    NodeId first_id;
    Duration arrived_after_pass;
  };

  bool has_round_ = false;
  int verdicts_ = 0;
  std::optional<Ahead> ahead_;  // the next round, if it was sent before its verdict
  TimePoint origin_{};
  std::optional<Request> request_;
  std::optional<Duration> request_took_;  // until the pass started
  std::optional<TimePoint> exits_changed_at_;
  std::optional<bool> has_exits_;
};

}  // namespace outrider
