// A link between an edge and a SimServer, with the faults that links have: delay that varies, a
// limit of bandwidth, a partition of one direction, a reader that stalls, the loss of the stream.
// Ordered and without duplicates within each direction, as a stream is; the two directions cross
// freely.
//
// To the edge it is a Verifier whose events come on the simulation's thread.
// Thread rule: one thread. Ownership: simulation and server outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "bench/sim/sim_server.h"
#include "bench/sim/simulation.h"
#include "common/protocol/messages.h"
#include "common/protocol/verifier.h"
#include "emulation/path/stream_path.h"

namespace outrider {

// About how many bytes a message is on the wire (32 nodes in 256 bytes, an exit report in 48:
// docs/design.md), for links with a limit of bandwidth. Real sizes are the codec's, which needs
// gRPC.
inline constexpr std::size_t kFrameBytes = 24;  // of a message without content, headers included
inline constexpr std::size_t kNodeBytes = 8;
inline constexpr std::size_t kTokenBytes = 3;
inline constexpr std::size_t kNameBytes = 64;  // a hash, a session's id
inline constexpr std::size_t kExitReportBytes = 48;

inline std::size_t message_size(const EdgeMessage& message) {
  if (const auto* grow = std::get_if<Grow>(&message.body)) {
    return kFrameBytes + grow->nodes.size() * kNodeBytes;
  }
  if (const auto* open = std::get_if<Open>(&message.body)) {
    return kFrameBytes + 4 * kNameBytes + open->prefix.size() * kTokenBytes;
  }
  if (const auto* prefix = std::get_if<Prefix>(&message.body)) {
    return kFrameBytes + prefix->ids.size() * kTokenBytes;
  }
  return kFrameBytes;
}

inline std::size_t message_size(const VerifierEvent& event) {
  const auto* message = std::get_if<ServerMessage>(&event);
  if (message == nullptr) return kFrameBytes;
  if (std::holds_alternative<ExitReport>(*message)) return kExitReportBytes;
  if (std::holds_alternative<Opened>(*message)) return kFrameBytes + 5 * kNameBytes;
  const auto* verdict = std::get_if<Verdict>(message);
  return kFrameBytes + (verdict == nullptr ? 0 : verdict->tokens.size() * kTokenBytes);
}

class SimLink final : public Verifier {
 public:
  // Each message's delay lies between these.
  struct Delays {
    Duration shortest{0};
    Duration longest{0};
  };
  struct Options {
    Delays up;
    Delays down;
    double bytes_per_s = 0;  // of each direction; 0: no limit
    // What may wait for a reader that stalls; one message more breaks the stream.
    std::size_t max_waiting = 1024;
    int connect_trips = 0;  // of each new stream (emulation/path/stream_path.h)
    // Instead of delays and bandwidth, if there is one: what the profile makes of a stream.
    std::shared_ptr<LinkWire> wire = {};
  };
  // What the faults did to messages.
  struct Counts {
    std::uint64_t limited = 0;          // had to wait for those before them: bandwidth
    std::uint64_t held = 0;             // by a partition
    std::uint64_t unread = 0;           // by a reader that stalled
    std::uint64_t dropped_reports = 0;  // exit reports that waited for the reader too long
    std::uint64_t overflows = 0;        // streams lost because the reader was too far behind
    std::uint64_t cuts = 0;             // streams lost
    std::uint64_t lost_for_good = 0;    // sent into a link on which nothing arrives
    std::uint64_t bytes_up = 0;         // of messages, about (message_size())
    std::uint64_t bytes_down = 0;
  };

  SimLink(Simulation& simulation, SimServer& server, const Options& options);

  void start(std::uint32_t epoch, EventSink sink) override;
  void send(EdgeMessage message) override;
  void stop() override;

  // Loses what is on its way in both directions. The edge is told after `edge_notices`
  // (StreamEnded, UNAVAILABLE), the server after `server_notices`: until then it is half open.
  void cut(Duration edge_notices, Duration server_notices);
  // For that long nothing sent in the direction arrives; then all of it does.
  void partition_up(Duration how_long);
  void partition_down(Duration how_long);
  // For that long the edge reads nothing. What waits for it is bounded as in the server's queue: a
  // verdict drops the exit reports before it, and an edge too far behind loses its stream.
  void stall_reader(Duration how_long);

  // When the server would answer what leaves now, at best.
  TimePoint answers_at() const;
  bool connected() const { return state_ != nullptr && !state_->dead; }
  const Counts& counts() const { return counts_; }

  // Called when a new stream has reached the server.
  std::function<void(StreamId)> on_connected;

 private:
  // One direction of a stream.
  struct Flow {
    TimePoint free_at;       // the wire has taken what was sent before
    TimePoint last_arrival;  // nothing overtakes it
    std::optional<LinkWireFlow> wire;
  };
  // One stream of the link. Events on their way hold it; the dead one's come to nothing.
  struct State {
    std::uint32_t epoch;
    EventSink sink;
    std::optional<StreamId> stream;
    Flow up;
    Flow down;
    std::deque<VerifierEvent> unread;
    bool dead = false;
    TimePoint connected;  // its messages leave from here on
  };
  using StatePtr = std::shared_ptr<State>;

  // Nothing: never.
  std::optional<TimePoint> arrival(const Delays& delays, Flow& flow, TimePoint held_until,
                                   std::size_t bytes);
  std::optional<TimePoint> connect(State& state);
  TimePoint delayed_arrival(const Delays& delays, Flow& flow, TimePoint leaves, std::size_t bytes);
  void take_down(const StatePtr& state, VerifierEvent event);
  void carry_down(const StatePtr& state, VerifierEvent event);
  void queue_unread(const StatePtr& state, VerifierEvent event);
  void read_later(const StatePtr& state);

  Simulation& simulation_;
  SimServer& server_;
  const Options options_;
  TimePoint up_held_until_{};
  TimePoint down_held_until_{};
  TimePoint stalled_until_{};
  StatePtr state_;
  Counts counts_;
};

}  // namespace outrider
