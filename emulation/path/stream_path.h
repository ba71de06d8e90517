// One direction of a stream over an impaired path: how loss, black-outs and the queue affect the
// bytes of a TCP connection. It is a model: no TCP runs in it.
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
  static constexpr std::size_t kMaxSegment = 1448;  // payload of a packet of 1500 bytes
  static constexpr std::size_t kHeaders = 52;
  static constexpr Duration kMinTimeout = std::chrono::milliseconds(200);

  // path must outlive this object. round_trip: of the whole link.
  StreamPath(ImpairedPath& path, Duration round_trip)
      : path_(path), timeout_(round_trip + kMinTimeout) {}

  // How many bytes to take at once: one segment if packets count, else any number.
  std::size_t largest_piece() const;
  // Whether the path accepts a piece now; if not, when it may.
  bool has_room(Duration now) { return path_.has_room(kMaxSegment + kHeaders, now); }
  Duration room_at() const { return path_.next_departure(); }

  // When a piece sent now arrives; nothing if it never does. Never before the piece ahead of it.
  std::optional<Duration> send(std::size_t bytes, Duration now);
  // The end of the stream; it is never lost.
  std::optional<Duration> send_end(Duration now) { return send(0, now); }

 private:
  ImpairedPath& path_;
  const Duration timeout_;
  Duration last_due_{0};
};

// One-way trips of a new connection before its first message may leave: TCP's handshake, then
// HTTP/2's, which waits for the server's settings. Behind a proxy beside the edge only HTTP/2's
// count.
inline constexpr int kConnectTrips = 4;
inline constexpr int kConnectTripsBehindProxy = 1;

// When the handshakes are over; nothing: never. trip(up, at): when a message that leaves at `at`
// arrives.
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

  // When a message that is sent now has arrived completely; nothing if it never does. Times count
  // from the profile's start.
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
