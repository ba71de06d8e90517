// What a link's profile does to the messages of a stream: the model of TCP over an impaired path
// that the proxy uses too (bench/link/path/stream_path.h).
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "bench/link/path/impaired_path.h"
#include "bench/link/path/link_profile.h"
#include "bench/link/path/stream_path.h"
#include "common/base/clock.h"

namespace outrider {

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

// Both directions of a link from some time of its profile on.
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
