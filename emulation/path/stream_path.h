// One direction of a stream over an impaired path: what loss, black-outs and the queue make of a
// TCP connection's bytes. A model: there is no TCP in it.
//
//   lost      arrives after a retransmission: once the timeout has passed, which is the round trip
//             and Linux's least, 200 ms, and doubles each time the segment is lost again
//   queue     never overflows: the sender waits while it is full, as congestion control would have
//             it do
//   silent    never arrives
//   order     bytes wait for those sent before them; duplicates and reordering are not seen
//
// Several connections share a path; each has a StreamPath of its own.
// Pure: time is an argument, counts from the link's start. Thread rule: that of the path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "emulation/path/impaired_path.h"
#include "emulation/path/link_profile.h"

namespace outrider {

class StreamPath final {
 public:
  static constexpr std::size_t kMaxSegment = 1448;  // of a packet of 1500 bytes
  static constexpr std::size_t kHeaders = 52;
  static constexpr Duration kMinTimeout = std::chrono::milliseconds(200);

  // path must outlive this. round_trip: of the whole link.
  StreamPath(ImpairedPath& path, Duration round_trip)
      : path_(path), timeout_(round_trip + kMinTimeout) {}

  // How many bytes to take at once: a segment where packets count, any number where not.
  std::size_t largest_piece() const;
  // Whether the path takes a piece now; if not, when it may.
  bool has_room(Duration now) { return path_.has_room(kMaxSegment + kHeaders, now); }
  Duration room_at() const { return path_.next_departure(); }

  // When a piece that is sent now arrives; nothing if it never does. Never before the piece ahead.
  std::optional<Duration> send(std::size_t bytes, Duration now);
  // The end of the stream, which is never lost by itself.
  std::optional<Duration> send_end(Duration now) { return send(0, now); }

 private:
  ImpairedPath& path_;
  const Duration timeout_;
  Duration last_due_{0};
};

// How many trips one way a new connection takes before its first message may leave: TCP's greeting
// and then HTTP/2's, whose settings the server sends; behind a proxy beside the edge only these.
inline constexpr int kConnectTrips = 4;
inline constexpr int kConnectTripsBehindProxy = 1;

// When that is over; nothing: never. trip(up, at): when what leaves then arrives.
template <typename Time, typename Trip>
std::optional<Time> connected_at(int trips, Time now, Trip&& trip) {
  std::optional<Time> at = now;
  for (; trips > 0 && at; --trips) at = trip(trips % 2 == 0, *at);
  return at;
}

// One direction of a link.
struct LinkWireDirection {
  LinkWireDirection(const PathSettings& settings, std::uint64_t seed) : path(settings, seed) {}

  ImpairedPath path;
  Duration latest{0};  // when something was last sent: the path's times must not fall
};

// One direction of one stream.
class LinkWireFlow final {
 public:
  LinkWireFlow(LinkWireDirection& direction, Duration round_trip)
      : direction_(direction), stream_(direction.path, round_trip) {}

  // When a message that is sent now arrives, whole; nothing if it never does. Times count from the
  // profile's start.
  std::optional<Duration> send(std::size_t bytes, Duration now) {
    Duration& at = direction_.latest;
    at = std::max(at, now);
    std::optional<Duration> due;
    do {
      while (!stream_.has_room(at)) at = std::max(stream_.room_at(), at + Duration{1});
      const std::size_t piece = std::min(bytes, stream_.largest_piece());
      due = stream_.send(piece, at);
      bytes -= piece;
    } while (bytes > 0 && due);
    return due;
  }

 private:
  LinkWireDirection& direction_;
  StreamPath stream_;
};

// Both directions of a link from some time of its profile on, for messages in virtual time.
class LinkWire final {
 public:
  LinkWire(const LinkProfile& profile, Duration offset, std::uint64_t seed)
      : offset_(offset), up_(profile.up, 2 * seed), down_(profile.down, 2 * seed + 1) {}

  Duration profile_time(TimePoint now) const { return now.time_since_epoch() + offset_; }
  TimePoint simulation_time(Duration due) const { return TimePoint(due - offset_); }
  LinkCounts counts() const { return {up_.path.counts(), down_.path.counts()}; }
  // For a new stream.
  void open(std::optional<LinkWireFlow>& up, std::optional<LinkWireFlow>& down) {
    const Duration round_trip = up_.path.settings().delay + down_.path.settings().delay;
    up.emplace(up_, round_trip);
    down.emplace(down_, round_trip);
  }

 private:
  const Duration offset_;
  LinkWireDirection up_;
  LinkWireDirection down_;
};

}  // namespace outrider
