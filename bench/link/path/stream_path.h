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

#include <chrono>
#include <cstddef>
#include <optional>

#include "bench/link/path/impaired_path.h"

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

}  // namespace outrider
