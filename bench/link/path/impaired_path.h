// One direction of an emulated link: says of each packet when it arrives, or what became of it.
//
//   ImpairedPath path(settings, seed);
//   const Fate fate = path.send(1500, since_start);
//   if (fate.arrives()) deliver_at(fate.due);
//
// A packet waits for the bottleneck (bottleneck.h), is lost there or not (loss.h), and then takes
// its delay (jitter.h). Order is kept: a packet whose jitter is less than that of the one before
// it waits for that one. Only what the settings ask to be reordered is overtaken.
//
// Pure: time is an argument, counts from the link's start, and must not fall. The same settings,
// seed and packets give the same fates. Thread rule: one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bench/link/path/bottleneck.h"
#include "bench/link/path/jitter.h"
#include "bench/link/path/link_random.h"
#include "bench/link/path/loss.h"
#include "bench/link/path/path_counts.h"
#include "bench/link/path/path_settings.h"

namespace outrider {

struct Fate {
  enum class Kind : std::uint8_t { kArrives, kQueueFull, kLost, kSilent };

  Kind kind = Kind::kArrives;
  // When it arrives; of a lost one, when it would have. Nothing else has one.
  Duration due{0};
  std::optional<Duration> copy_due = {};  // of a duplicate

  bool arrives() const { return kind == Kind::kArrives; }
};

class ImpairedPath final {
 public:
  ImpairedPath(PathSettings settings, std::uint64_t seed);
  ImpairedPath(const ImpairedPath&) = delete;
  ImpairedPath& operator=(const ImpairedPath&) = delete;

  const PathSettings& settings() const { return settings_; }
  const PathCounts& counts() const { return counts_; }

  // bytes: of the whole packet, headers included.
  Fate send(std::size_t bytes, Duration now);

  // Whether a packet that is sent again at that time is lost again.
  bool loses_again(Duration at) { return loss_.loses(at); }
  // Whether the queue has room; if it has none, next_departure() is when it may.
  bool has_room(std::size_t bytes, Duration now) {
    return !settings_.has_rate() || bottleneck_.has_room(bytes, now);
  }
  Duration next_departure() const { return bottleneck_.next_departure(); }

  // From now on another delay, without jitter.
  void set_delay(Duration delay);

 private:
  bool is_silent(Duration now) const {
    return settings_.silent_from && now >= *settings_.silent_from;
  }
  void count_passed(std::size_t bytes, Duration now, Duration passed);
  void count_lost(Duration at);

  PathSettings settings_;
  Bottleneck bottleneck_;
  LossModel loss_;
  Jitter jitter_;
  LinkRandom random_;  // of duplicates and reordering
  Duration last_due_{0};
  Duration last_passed_{0};  // the bottleneck
  PathCounts counts_;
};

}  // namespace outrider
