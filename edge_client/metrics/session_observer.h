// The events that a decoding session reports to observers: figures, the timeline, logs. Observers
// change nothing; the session works the same without them.
//
// Thread rule: called on the session's thread, in the order of events; `now` is the event's time.
// Ownership: observers outlive the session; references in arguments live for the call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/decoding/drafting/draft_step.h"
#include "common/decoding/drafting/hypothesis_tree.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/metrics/verified_round.h"

namespace outrider {

// A change by the controller, and its reason.
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

// A verdict that was committed.
struct VerdictRecord {
  const Verdict& verdict;
  const VerifiedRound& round;
  std::size_t answer_tokens = 0;  // with this verdict's
  Duration round_trip{0};         // as estimated
  // Measured: from the request for the pass to the pass's start, less queueing.
  std::optional<Duration> request_round_trip;
  std::size_t sent_unused = 0;  // nodes that were sent, never were a row of a pass, and died
  std::uint64_t evicted = 0;    // nodes that the drafter forgot so far to stay within its bound
};

class SessionObserver {
 public:
  virtual ~SessionObserver() = default;

  virtual void on_start(std::size_t /*prompt_tokens*/, TimePoint /*now*/) {}
  // took: since Open left. reconnected: not the answer's first stream.
  virtual void on_opened(const Opened& /*opened*/, Duration /*took*/, bool /*reconnected*/) {}
  virtual void on_sent(const EdgeMessage::Body& /*body*/, TimePoint /*now*/) {}
  // A round left that the verifier waits for.
  virtual void on_round_sent(TimePoint /*now*/) {}
  // Nodes left before the verdict that they are for.
  virtual void on_sent_ahead(std::size_t /*nodes*/) {}
  // synced: of a pass that took a round that had left before the verdict that it follows: how long
  // after the pass of that verdict the round came to the verifier.
  virtual void on_pass_started(const Started& /*started*/, std::optional<Duration> /*synced*/,
                               TimePoint /*now*/) {}
  // taken: it was new and of use; else it was ignored.
  virtual void on_exit_report(const ExitReport& /*report*/, bool /*taken*/, TimePoint /*now*/) {}
  virtual void on_draft_step(const DraftStepDone& /*step*/, TimePoint /*now*/) {}
  virtual void on_verdict(const VerdictRecord& /*record*/, TimePoint /*now*/) {}
  // After a verdict that a round was wanted for: what the pre-draft cache held; wanted: drafted
  // tokens of a whole round.
  virtual void on_cache_lookup(const CacheLookup& /*found*/, std::size_t /*wanted*/,
                               TimePoint /*now*/) {}
  virtual void on_plan_changed(const PlanChange& /*change*/) {}
  virtual void on_usage(const Usage& /*usage*/) {}
};

// Passes every call on to several observers, in their order.
class ObserverList final {
 public:
  void add(SessionObserver& observer) { observers_.push_back(&observer); }

  // notify(&SessionObserver::on_..., arguments..)
  template <typename... Parameters, typename... Arguments>
  void notify(void (SessionObserver::*event)(Parameters...), const Arguments&... arguments) const {
    for (SessionObserver* observer : observers_) (observer->*event)(arguments...);
  }

 private:
  std::vector<SessionObserver*> observers_;
};

}  // namespace outrider
