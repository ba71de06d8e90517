// Many streams, one device: gives each session its turn (DESIGN L4).
//
// Turns go round among tenants, and among each one's streams: one pass, or one chunk of a prefill,
// then the next that wants the device. Who is beyond his rows in time waits until he is not.
// Which streams there are, who is admitted and what is over is the table's (stream_table.h).
//
//   (connect | receive | disconnect | drain | tick)*  start  compute  finish
//
// Call order: between start() and finish() only compute(); messages wait outside. Events pile up
// for take_events(); take them after start(), so that Started leaves before the device works.
// Time is an argument; the model runs inside compute() only.
// Thread rule: owned by one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/protocol/messages.h"
#include "common/protocol/pass_cost_book.h"
#include "common/verify/branch_pruner.h"
#include "common/verify/exit_probe.h"
#include "common/verify/pass_runner.h"
#include "common/verify/reports/exit_report_channel.h"
#include "common/verify/scheduler_options.h"
#include "common/verify/scheduler_stats.h"
#include "common/verify/stream_event.h"
#include "common/verify/stream_table.h"

namespace outrider {

class Scheduler final {
 public:
  Scheduler(Model& model, const SchedulerOptions& options);

  // session_id: the name that the stream's session will have; not to be guessed by others.
  // reports: the way of the stream's exit reports, which leave during compute(). The owner of
  // the stream applies the edge's acknowledgements to it. Null: the stream gets no exit reports.
  void connect(StreamId stream, std::string session_id, TimePoint now,
               std::shared_ptr<ExitReportChannel> reports = nullptr, StreamOwner owner = {});
  // Messages of an unknown stream are late ones: ignored.
  void receive(StreamId stream, const EdgeMessage& message, TimePoint now);
  // No event of the stream follows; its KV is kept.
  void disconnect(StreamId stream, TimePoint now = {});
  // Ends the stream from outside the protocol.
  void end_stream(StreamId stream, const Status& status, TimePoint now = {});
  // Warns every session, refuses every later Open.
  void drain() { streams_.drain(); }
  // Ends the streams that have not come on for idle_timeout, and Opens of which no piece came for
  // open_timeout; drops caches that were kept for too long.
  void tick(TimePoint now);

  // When to call tick() and start() again if nothing happens before: a time in the past means now.
  std::optional<TimePoint> wake_at() const { return streams_.wake_at(); }

  // Begins the next turn. False if no session wants the device at `now`.
  bool start(TimePoint now);
  // Runs it. Blocks for as long as the model works. abandoned: set by another thread when nobody
  // wants the turn's result any more; it may then end early, and finish() ends its stream.
  void compute(const std::atomic<bool>* abandoned = nullptr, const ProgressSink& on_progress = {});
  // Ends it.
  void finish(TimePoint now);
  // Whose turn it was last.
  StreamId last_served() const { return last_served_; }

  std::vector<StreamEvent> take_events() { return streams_.take_events(); }
  std::vector<SessionRecord> take_records() { return streams_.take_records(); }
  // The stream's session, to look at; null before Open and after the end.
  const VerifySession* session(StreamId stream) const { return streams_.session(stream); }
  SchedulerStats stats() const;

 private:
  void announce_pass_limit(TimePoint now);

  std::optional<double> joules() const { return joules_ ? joules_() : std::nullopt; }

  const Duration pass_limit_;
  const std::function<std::optional<double>()> joules_;
  StreamTable streams_;
  PassRunner runner_;
  std::optional<ExitProbe> probe_;      // if the target has exits
  std::optional<BranchPruner> pruner_;  // if it shall prune, too
  StreamId last_served_ = 0;
  Duration slowest_turn_{0};  // lately

  // The turn between start() and finish().
  struct Turn {
    StreamId stream;
    PassPlan plan;
    TimePoint started;
    Status status;
    std::optional<double> joules_before;
  };
  std::optional<Turn> turn_;

  std::uint64_t passes_ = 0;
  std::uint64_t failed_in_a_row_ = 0;
  std::uint64_t rows_ = 0;
  Duration compute_{0};
  PassCostBook costs_;
};

}  // namespace outrider
