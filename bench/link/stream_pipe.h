// One direction of a proxied connection: reads a socket, writes another when the path says so.
//
// Thread rule: the proxy's thread. Sockets are non-blocking and belong to the caller.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "bench/link/path/stream_path.h"
#include "common/base/clock.h"

namespace outrider {

// Time since a link's start.
struct LinkClock {
  const Clock& clock;
  TimePoint start;

  Duration now() const { return clock.now() - start; }
};

class StreamPipe final {
 public:
  // count: bytes that left. It, the clock and the path of `stream` outlive the pipe.
  StreamPipe(int from, int to, std::size_t max_in_flight, StreamPath stream, const LinkClock& clock,
             std::atomic<std::uint64_t>& count)
      : from_(from),
        to_(to),
        max_in_flight_(max_in_flight),
        stream_(stream),
        clock_(clock),
        count_(count) {}

  int from() const { return from_; }
  int to() const { return to_; }

  // Takes what has arrived, as far as the path has room; none overtakes another.
  void take();
  // Writes what is due; passes the end of the stream on once all is written.
  void deliver();

  bool wants_to_read() const {
    return !ended_ && !broken_ && !room_at_ && in_flight_ < max_in_flight_;
  }
  // The socket did not take all that was due.
  bool wants_to_write() const { return blocked_; }
  // When there is something to do next; nothing if a socket must move first.
  std::optional<Duration> next_due() const;
  bool finished() const { return finished_; }
  // A socket failed: the connection cannot go on.
  bool broken() const { return broken_; }

 private:
  struct Chunk {
    Duration due;
    std::vector<char> bytes;
    std::size_t written = 0;
  };

  bool write_front();

  const int from_;
  const int to_;
  const std::size_t max_in_flight_;
  StreamPath stream_;
  const LinkClock& clock_;
  std::atomic<std::uint64_t>& count_;
  std::deque<Chunk> chunks_;
  std::size_t in_flight_ = 0;        // bytes
  std::optional<Duration> room_at_;  // the path was full
  std::optional<Duration> end_due_;  // the end of the stream was read and arrives then
  bool ended_ = false;
  bool blocked_ = false;
  bool finished_ = false;
  bool broken_ = false;
};

}  // namespace outrider
