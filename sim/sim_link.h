// A link between an edge and a SimServer, with faults of real links: varying delay, limited
// bandwidth, a partition of one direction, a stalled reader, a lost stream. Each direction is
// ordered and without duplicates, as a stream is; the two directions are independent.
//
// To the edge it is a Verifier whose events arrive on the simulation's thread.
// Thread rule: one thread. Ownership: simulation and server outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/decoding/protocol/messages.h"
#include "common/decoding/protocol/verifier.h"
#include "emulation/path/stream_path.h"
#include "sim/activity.h"
#include "sim/sim_server.h"
#include "sim/simulation.h"

namespace outrider {

// The approximate size of a message on the wire (32 nodes in 256 bytes, an exit report in 48:
// docs/design.md), for links with limited bandwidth. The exact sizes are the codec's, which needs
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
  // Each message's delay is between these.
  struct Delays {
    Duration shortest{0};
    Duration longest{0};
  };
  struct Options {
    Delays up = {};
    Delays down = {};
    double bytes_per_s = 0;  // of each direction; 0: no limit
    // The most messages that may wait for a stalled reader; one more breaks the stream.
    std::size_t max_waiting = 1024;
    int connect_trips = 0;      // of each new stream (emulation/path/stream_path.h)
    bool same_process = false;  // messages keep what no wire carries: the draft's candidates
    // If set, the profile replaces delays and bandwidth.
    std::shared_ptr<LinkWire> wire = {};
  };
  // The effects of the faults on messages.
  struct Counts {
    std::uint64_t limited = 0;          // waited for the messages before them: bandwidth
    std::uint64_t held = 0;             // held by a partition
    std::uint64_t unread = 0;           // delayed by a stalled reader
    std::uint64_t dropped_reports = 0;  // exit reports that waited for the reader too long
    std::uint64_t overflows = 0;        // streams lost because the reader was too far behind
    std::uint64_t cuts = 0;             // streams lost
    std::uint64_t lost_for_good = 0;    // sent into a link on which nothing arrives any more
    std::uint64_t bytes_up = 0;         // of messages, about (message_size())
    std::uint64_t bytes_down = 0;
  };

  SimLink(Simulation& simulation, SimServer& server, const Options& options);

  void start(std::uint32_t epoch, EventSink sink) override;
  void send(EdgeMessage message) override;
  void stop() override;

  // Loses all messages in flight in both directions. The edge is notified after `edge_notices`
  // (StreamEnded, UNAVAILABLE), the server after `server_notices`: until then the link is half
  // open.
  void cut(Duration edge_notices, Duration server_notices);
  // For this long nothing sent in the direction arrives; then all of it does.
  void partition_up(Duration how_long);
  void partition_down(Duration how_long);
  // For this long the edge reads nothing. The waiting messages are bounded as in the server's
  // queue: a verdict drops the exit reports before it, and an edge too far behind loses its stream.
  void stall_reader(Duration how_long);

  // When the server's answer to a message sent now would arrive, at best.
  TimePoint answers_at() const;
  bool connected() const { return state_ != nullptr && !state_->dead; }
  const Counts& counts() const { return counts_; }
  // Messages that the edge sent and received so far, in this order.
  const std::vector<Activity::Message>& messages() const { return messages_; }

  // Called when a new stream has reached the server.
  std::function<void(StreamId)> on_connected;

 private:
  // One direction of a stream.
  struct Flow {
    TimePoint free_at;       // when the wire has sent all earlier messages
    TimePoint last_arrival;  // order is kept
    std::optional<LinkWireFlow> wire;
    // Over a wire, what is sent at one instant leaves together, as TCP joins it: its size, and what
    // comes of it when it has arrived.
    std::size_t leaving_bytes = 0;
    std::vector<std::function<void()>> leaving = {};
  };
  // One stream of the link. Events in flight hold it; those of a dead stream have no effect.
  struct State {
    std::uint32_t epoch;
    EventSink sink;
    std::optional<StreamId> stream;
    Flow up;
    Flow down;
    std::deque<VerifierEvent> unread;
    bool dead = false;
    TimePoint connected;  // its messages leave from then on
  };
  using StatePtr = std::shared_ptr<State>;

  // Nothing: never.
  std::optional<TimePoint> arrival(const Delays& delays, Flow& flow, TimePoint held_until,
                                   std::size_t bytes);
  std::optional<TimePoint> connect(State& state);
  TimePoint delayed_arrival(const Delays& delays, Flow& flow, TimePoint leaves, std::size_t bytes);
  void carry(const StatePtr& state, bool up, std::size_t bytes, std::function<void()> arrived);
  void leave(const StatePtr& state, bool up);
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
  std::vector<Activity::Message> messages_;
};

}  // namespace outrider
