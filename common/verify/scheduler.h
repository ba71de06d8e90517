// Many streams, one device: admits sessions, gives each its turn, ends what is over (DESIGN L4).
//
// Turns go round: one pass, or one chunk of a prefill, then the next stream that wants the device.
// At most max_concurrent_sessions; the next Open is told to come back. A stream that replaces a
// session takes over its KV, whether that session still lives (a link that died unnoticed) or not.
//
//   (connect | receive | disconnect | drain | tick)*  start  compute  finish
//
// Call order: between start() and finish() only compute(); messages wait outside. Events pile up
// for take_events(); take them after start(), so that Started leaves before the device works.
// Time is an argument; the model runs inside compute() only.
// Thread rule: owned by one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/protocol/messages.h"
#include "common/verify/exit_probe.h"
#include "common/verify/exit_report_channel.h"
#include "common/verify/kv_pool.h"
#include "common/verify/pass_runner.h"
#include "common/verify/scheduler_options.h"
#include "common/verify/scheduler_stats.h"
#include "common/verify/stream_event.h"
#include "common/verify/target.h"
#include "common/verify/verify_stream.h"

namespace outrider {

class Scheduler final {
 public:
  Scheduler(Model& model, const SchedulerOptions& options);

  // session_id: the name that the stream's session will have; not to be guessed by others.
  // reports: the way of the stream's exit reports, which leave during compute(). The owner of
  // the stream applies the edge's acknowledgements to it. Null: the stream gets no exit reports.
  void connect(StreamId stream, std::string session_id, TimePoint now,
               std::shared_ptr<ExitReportChannel> reports = nullptr);
  // Messages of an unknown stream are late ones: ignored.
  void receive(StreamId stream, const EdgeMessage& message, TimePoint now);
  // No event of the stream follows; its KV is kept.
  void disconnect(StreamId stream);
  // Ends the stream from outside the protocol.
  void end_stream(StreamId stream, const Status& status);
  // Warns every session, refuses every later Open.
  void drain();
  // Ends the streams whose edge has been silent for idle_timeout.
  void tick(TimePoint now);

  // When to call tick() and start() again if nothing happens before: a time in the past means now.
  std::optional<TimePoint> wake_at() const;

  // Begins the next turn. False if no session wants the device at `now`.
  bool start(TimePoint now);
  // Runs it. Blocks for as long as the model works.
  void compute();
  // Ends it.
  void finish(TimePoint now);
  // Whose turn it was last.
  StreamId last_served() const { return last_served_; }

  std::vector<StreamEvent> take_events() { return std::exchange(events_, {}); }
  // The stream's session, to look at; null before Open and after the end.
  const VerifySession* session(StreamId stream) const;
  SchedulerStats stats() const;

 private:
  using Streams = std::map<StreamId, VerifyStream>;

  Status open(StreamId id, VerifyStream& stream, const EdgeMessage& message, TimePoint now);
  Status admit(StreamId id, const std::string& replaced_session);
  void end_replaced(const std::string& session_id);
  void flush(StreamId id, VerifyStream& stream);
  void close(Streams::iterator at, const Status& status);
  void retire(VerifyStream& stream);

  const SchedulerOptions options_;
  const Target target_;
  KvPool pool_;
  PassRunner runner_;
  std::optional<ExitProbe> probe_;  // if the target has exits

  Streams streams_;
  std::size_t sessions_open_ = 0;
  StreamId last_served_ = 0;
  bool draining_ = false;

  // The turn between start() and finish().
  struct Turn {
    StreamId stream;
    PassPlan plan;
    TimePoint started;
    Status status;
  };
  std::optional<Turn> turn_;

  std::vector<StreamEvent> events_;
  SchedulerStats stats_;
};

}  // namespace outrider
