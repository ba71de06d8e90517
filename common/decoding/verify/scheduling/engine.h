// Verifies for many streams with one model on one thread: the interface between the carriers of
// messages (the gRPC shell, the resident verifier) and the sessions that decide.
//
//   StreamId stream = engine.connect(sink);
//   engine.post(stream, {.body = Open{..}});      // then Grow, Policy, Cancel, acknowledgements
//   ... sink(Opened), sink(Started), sink(Verdict), .., sink(Usage), sink(StreamEnded)
//   engine.disconnect(stream);
//
// Thread rule: every method may be called from any thread and none waits for a pass. A stream's
// sink gets one event at a time, on a thread of the engine, or StreamEnded on that of fail_all(); a
// sink must return soon and must not call disconnect() or the destructor; post() and connect() are
// allowed. Do not call disconnect() with a lock held that the sink takes.
// Where several sessions share a pass, a second thread hands events over, so that the next begins
// at once.
// Bounds: a stream's messages wait in an inbox; a peer that sends faster than they are taken loses
// its stream (RESOURCE_EXHAUSTED). What a slow reader is owed is bounded by the caller, which
// disconnects it.
// Ownership: the model must outlive the engine and is used by no one else meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/protocol/verifier.h"
#include "common/decoding/verify/scheduling/fairness.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/session/verify_stream.h"
#include "common/engine/model/model.h"

namespace outrider {

// The messages that wait for an engine's compute thread, in order of arrival, bounded for each
// stream and group. Thread rule: none of its own; the engine's lock guards it.
class EngineInbox final {
 public:
  // The most that one stream may have waiting. An edge that keeps the protocol has at most
  // max_nodes nodes and some acknowledgements on their way, besides its one Open, whose pieces
  // count by their bytes.
  static constexpr std::size_t kMaxMessages = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{8} << 20;
  // The most that the streams of one group (a tenant, an address) may have waiting, and all
  // together: the stream that has most is ended.
  static constexpr std::size_t kMaxBytesOfGroup = std::size_t{16} << 20;
  static constexpr std::size_t kMaxBytesOfAll = std::size_t{64} << 20;

  struct Connected {
    std::string session_id;
    PassHooks hooks;
    StreamOwner owner;
  };
  struct Disconnected {};
  struct Drain {};
  struct ModelChanged {
    Model* model;
  };
  struct EdgesLearnt {
    std::array<double, 3> weights;
  };
  struct Overflow {};  // in place of the messages of a stream that sent too many
  struct Input {
    StreamId stream;
    std::variant<Connected, EdgeMessage, Disconnected, Drain, ModelChanged, EdgesLearnt, Overflow>
        what;
  };

  // Anything but a message.
  void push(Input input) { inputs_.push_back(std::move(input)); }
  // A message of a stream that is connected. group: that of its owner.
  void push_message(StreamId stream, const std::string& group, EdgeMessage message);

  bool empty() const { return inputs_.empty(); }
  // All that waits; the inbox is empty afterwards.
  std::vector<Input> take();

 private:
  struct Waiting {
    std::size_t messages = 0;
    std::size_t bytes = 0;
    bool overflowed = false;
  };

  void overflow(StreamId stream);
  bool supersede_acknowledgement(StreamId stream, const EdgeMessage& message);

  std::vector<Input> inputs_;
  std::map<StreamId, Waiting> waiting_;  // of streams with messages
  GroupShares shares_{kMaxBytesOfGroup, kMaxBytesOfAll};
};

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

  // Streams that connect from now on are verified with this model, which outlives the engine. No
  // stream is connected; what waited for a reconnect is forgotten, and stats() begin again.
  void change_model(Model& model);

  // Pruning begins with these EdgeChance::Weights, where there is any: SchedulerStats::edge_weights
  // of an earlier engine of the same target and draft. Before the first stream connects.
  void begin_pruning_with(const std::array<double, 3>& weights);

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
  class StreamSink;
  class BesideThread;
  struct Core;
  std::unique_ptr<Core> core_;
};

}  // namespace outrider
