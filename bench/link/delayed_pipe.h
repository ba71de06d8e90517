// One direction of a delayed link: reads a socket, writes another, each byte a fixed time later.
//
// Thread rule: the link's thread. Sockets are non-blocking and belong to the caller.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

class DelayedPipe final {
 public:
  // count: bytes that left; outlives the pipe.
  DelayedPipe(int from, int to, std::size_t max_in_flight, std::atomic<std::uint64_t>& count)
      : from_(from), to_(to), max_in_flight_(max_in_flight), count_(count) {}

  int from() const { return from_; }
  int to() const { return to_; }

  // Takes what has arrived; it is due at now + delay, and never before what came earlier.
  void take(TimePoint now, Duration delay);
  // Writes what is due; passes the end of the stream on once all is written.
  void deliver(TimePoint now);

  bool wants_to_read() const { return !ended_ && !broken_ && in_flight_ < max_in_flight_; }
  // The socket did not take all that was due.
  bool wants_to_write() const { return blocked_; }
  // When something is due next; nothing if nothing is, or if the socket must first take more.
  std::optional<TimePoint> next_due() const;
  bool finished() const { return finished_; }
  // A socket failed: the connection cannot go on.
  bool broken() const { return broken_; }

 private:
  struct Chunk {
    TimePoint due;
    std::vector<char> bytes;
    std::size_t written = 0;
  };

  bool write_front();

  const int from_;
  const int to_;
  const std::size_t max_in_flight_;
  std::atomic<std::uint64_t>& count_;
  std::deque<Chunk> chunks_;
  std::size_t in_flight_ = 0;  // bytes
  TimePoint last_due_{};
  bool ended_ = false;  // the end of the stream was read, due at last_due_
  bool blocked_ = false;
  bool finished_ = false;
  bool broken_ = false;
};

}  // namespace outrider
