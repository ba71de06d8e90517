// How many bytes of nodes may be under way to the verifier unheard of, so that rounds sent ahead
// never queue before the round that the target waits for. As in LEDBAT (RFC 6817) delay tells: when
// a message takes clearly longer than the link's own round trip, bytes are queueing, and the window
// halves; otherwise it grows. On a full link it so settles near bandwidth times round trip.
//
// Started tells the last node that had arrived when a pass began. So a message that had arrived was
// under way for less than now - sent, and one that had not for more: bounds of the round trip,
// which needs no message of its own.
//
// Thread rule: a value, owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

class UplinkWindow final {
 public:
  // A new stream: nodes are numbered anew, and what was under way is lost.
  void restart();
  // The stream is open. What was sent before may have waited for the connection to be made: it tells
  // nothing of the round trip.
  void on_opened();
  // Nodes up to this id left, in so many bytes.
  void on_sent(NodeId last_id, double bytes, TimePoint now);
  // A pass was heard to have started with nodes up to this id. round_trip: as estimated before.
  RoundTripBounds on_pass_started(NodeId last_id, Duration round_trip, TimePoint now);

  // By how much a sent node came to the verifier after the end of the pass whose verdict is heard
  // now; 0 if it came before.
  Duration arrived_after_pass(NodeId id, Duration round_trip, TimePoint now) const;

  double size() const { return size_; }
  // Bytes that may leave now.
  double room() const;

 private:
  struct Sent {
    NodeId last_id;
    double bytes;
    TimePoint at;
    bool was_open = true;  // the stream, before it left
  };

  void adapt(const RoundTripBounds& bounds, Duration round_trip);
  Duration link_round_trip(Duration latest);

  static constexpr double kFirst = 4096;

  std::deque<Sent> under_way_;
  double bytes_under_way_ = 0;
  NodeId heard_ = 0;                  // the last node that a pass is known to have had
  std::deque<Duration> round_trips_;  // the latest estimates; their least is the link's own
  double size_ = kFirst;
};

}  // namespace outrider
