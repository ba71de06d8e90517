// Verifies for many streams with one model on one thread: the seam between the carriers of
// messages (the gRPC shell, the resident verifier) and the sessions that decide.
//
//   StreamId stream = engine.connect(sink);
//   engine.post(stream, {.body = Open{..}});      // then Grow, Policy, Cancel, acknowledgements
//   ... sink(Opened), sink(Started), sink(Verdict), .., sink(Usage), sink(StreamEnded)
//   engine.disconnect(stream);
//
// Thread rule: every method may be called from any thread and none waits for a pass. A stream's
// sink gets one event at a time, on the engine's compute thread or (exit reports) its report
// thread; a sink must return soon and must not call disconnect() or the destructor; post() and
// connect() are allowed. Do not call disconnect() with a lock held that the sink takes.
// Bounds: a stream's messages wait in an inbox; a peer that sends faster than they are taken loses
// its stream (RESOURCE_EXHAUSTED). What a slow reader is owed is bounded by the caller, which
// disconnects it.
// Ownership: the model must outlive the engine and is used by no one else meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/protocol/messages.h"
#include "common/protocol/verifier.h"
#include "common/verify/scheduler_options.h"
#include "common/verify/scheduler_stats.h"
#include "common/verify/stream_event.h"

namespace outrider {

class VerifyEngine final {
 public:
  using EventSink = std::function<void(VerifierEvent)>;

  // clock: tells the time of this process (SystemClock); outlives the engine.
  VerifyEngine(Model& model, const SchedulerOptions& options, Clock& clock);
  // Ends every stream with UNAVAILABLE, after the pass in work.
  ~VerifyEngine();
  VerifyEngine(const VerifyEngine&) = delete;
  VerifyEngine& operator=(const VerifyEngine&) = delete;

  // A new stream. Its events end with one StreamEnded, unless it is disconnected before.
  StreamId connect(EventSink sink, StreamOwner owner = {});

  // Hands over a message of the stream's edge. Dropped if the stream is over.
  void post(StreamId stream, EdgeMessage message);

  // The stream is gone: no event of it comes after this returns; a pass that runs for it is
  // abandoned. Its KV waits for a reconnect. Harmless after StreamEnded.
  void disconnect(StreamId stream);

  // From now on: every session gets Notice{kReconnectSoon} and may finish, every new Open is
  // refused with UNAVAILABLE.
  void drain();
  // Waits until no session is open. False if that took longer than `at_most`.
  bool wait_until_idle(Duration at_most);

  SchedulerStats stats() const;

  // How long the compute thread has been at its turn: inputs, a pass at most, and what follows from
  // them. 0 if it waits for work.
  Duration running_for() const;
  // Ends every stream now, though a pass may hang; no event of them follows. For a verifier whose
  // device is lost: what comes later is not answered.
  void fail_all(const Status& status);

 private:
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace outrider
