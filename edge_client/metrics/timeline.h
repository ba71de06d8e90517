// The events on both sides and their times, for a viewer of Chrome traces (Perfetto): draft steps,
// messages, hits and misses, the edge's waits, and the target's passes with the exits on their way;
// for a target that is streamed from flash, the computing and reading of each pass.
//
// The server's clock is never read: a pass is placed by the moment its verdict was heard, half the
// measured round trip, and the times that the verdict carries.
//
// Thread rule: a value; filled by the session, read when that is over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

class Timeline final {
 public:
  // Events past this many are dropped.
  static constexpr std::size_t kMaxEvents = std::size_t{1} << 20;

  enum class Track : std::uint8_t {
    kAnswer,
    kDraft,
    kSent,
    kHeard,
    kTarget,
    kWaits,
    kPasses,
    kCores,
    kDisk
  };

  // Spans of one track may not overlap, or viewers nest them wrongly: one that begins before the
  // latest end of its track (a pass is placed by an estimate) begins there.
  void span(Track track, std::string name, TimePoint begin, Duration length);
  void mark(Track track, std::string name, TimePoint at);

  std::size_t size() const { return events_.size(); }
  // The whole file: a JSON object with traceEvents, times in microseconds since the first event.
  std::string chrome_trace() const;

 private:
  struct Event {
    Track track;
    std::string name;
    TimePoint begin;
    Duration length{0};
    bool instant = false;
  };

  std::vector<Event> events_;
  std::array<TimePoint, 9> ends_{};  // of the latest span, by track
};

}  // namespace outrider
