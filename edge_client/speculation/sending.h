// Chooses the rounds that may be sent before their verdict. A round that is sent ahead saves the
// round trip if its outcome comes; if not, it costs its bytes and no row. So the likeliest rounds
// are sent first, and the rule weighs
//   - the chance of the outcome,
//   - bytes: an allowance that grows with every committed token, and with time if a budget is set,
//   and
//     the room that the link has,
//   - time: a round is sent whole, unless waiting for its end would make it late for the verdict.
//
// The room of the link is a window of bytes that are under way and were not heard of yet, so that
// rounds sent ahead never queue before the round that the target waits for. Delay is the signal, as
// in LEDBAT (RFC 6817): when a message takes clearly longer than the link's own round trip, bytes
// are queueing and the window halves; otherwise it grows. On a full link it settles near bandwidth
// times round trip.
//
// Thread rule: values, owned by the speculator; time is an argument. Units: bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/drafting/drafter.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

// The bytes that may be spent on sending ahead.
class ByteAllowance final {
 public:
  // per_second: 0 for the limit per token alone.
  explicit ByteAllowance(double per_second) : per_second_(per_second) {}

  // The size of a message of this many nodes, framing included.
  static double cost(std::size_t nodes);

  void on_committed(std::size_t tokens);
  void advance(TimePoint now);
  bool covers(std::size_t nodes) const;
  void spend(std::size_t nodes);

 private:
  const double per_second_;
  double by_tokens_ = kFirst;
  double by_time_ = kFirst;
  TimePoint last_{};

  static constexpr double kFirst = 512;  // before anything is committed
};

struct SendingLimits {
  std::size_t whole = 4;  // drafted tokens of a whole round
  std::size_t least = 1;  // drafted tokens of a round that is sent when it is due
  bool due = false;       // what is not sent now arrives too late
  std::size_t room = 0;   // nodes that the verifier takes
  double link_room = std::numeric_limits<double>::infinity();  // bytes that may be under way
  double min_chance = 0.02;                                    // of an outcome whose round is sent
};

// The nodes to send now in one message, parents first. rounds: likeliest first.
std::vector<NodeIndex> nodes_to_send(std::span<const DraftedRound> rounds,
                                     const SendingLimits& limits, const ByteAllowance& allowance);

// The window of bytes under way, and the bounds that it gives for the round trip. Started names the
// last node that had arrived when a pass began. So a message that had arrived was under way for
// less than now
// - sent, and one that had not for more: bounds of the round trip that need no message of their
// own.
class UplinkWindow final {
 public:
  // A new stream: node ids begin again, and what was under way is lost.
  void restart();
  // The stream is open. What was sent before may have waited for the connection, and says nothing
  // of the round trip.
  void on_opened();
  // Nodes up to this id were sent, in this many bytes.
  void on_sent(NodeId last_id, double bytes, TimePoint now);
  // Started says that nodes up to this id had arrived. round_trip: as estimated before.
  RoundTripBounds on_pass_started(NodeId last_id, Duration round_trip, TimePoint now);

  // How long after the end of the pass whose verdict is heard now a sent node reached the verifier;
  // 0 if it was there before.
  Duration arrived_after_pass(NodeId id, Duration round_trip, TimePoint now) const;

  double size() const { return size_; }
  // Bytes that may be sent now.
  double room() const;

 private:
  struct Sent {
    NodeId last_id;
    double bytes;
    TimePoint at;
    bool was_open = true;  // the stream was open when it was sent
  };

  void adapt(const RoundTripBounds& bounds, Duration round_trip);
  Duration link_round_trip(Duration latest);

  static constexpr double kFirst = 4096;

  std::deque<Sent> under_way_;
  double bytes_under_way_ = 0;
  NodeId heard_ = 0;                  // the last node that is known to have arrived
  std::deque<Duration> round_trips_;  // the latest estimates; their least is the link's own
  double size_ = kFirst;
};

}  // namespace outrider
