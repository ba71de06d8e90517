// One direction of an emulated link: decides for each packet when it arrives, or why it does not.
//
//   ImpairedPath path(settings, seed);
//   const Fate fate = path.send(1500, since_start);
//   if (fate.arrives()) deliver_at(fate.due);
//
// A packet waits for the bottleneck (Bottleneck), may be lost there (LossModel), and is then
// delayed (Jitter). Order is kept: a packet whose delay would let it overtake waits for the one
// before. Only packets that the settings reorder are overtaken.
//
// Pure: time is an argument, counts from the link's start, and must not fall. The same settings,
// seed and packets give the same fates. Thread rule: one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "emulation/path/link_condition.h"
#include "emulation/path/link_profile.h"
#include "emulation/random/random.h"

namespace outrider {

// The slowest part of a path. Packets pass one after the other, each for as long as its bytes take
// at the current rate. The others wait in a bounded queue.
class Bottleneck final {
 public:
  static constexpr std::size_t kOpportunityBytes = 1500;

  // settings must outlive this object. Its traces are as link_profile.h says, and let something
  // pass.
  explicit Bottleneck(const PathSettings& settings);

  // When the packet has passed; nothing if the queue has no room.
  std::optional<Duration> pass(std::size_t bytes, Duration now);

  // Whether the queue has room for this many bytes; if not, when it may have room.
  bool has_room(std::size_t bytes, Duration now);
  Duration next_departure() const { return queue_.front().first; }

  // Bytes that the path lets pass in [from, to) under constant load.
  static double capacity(const PathSettings& settings, Duration from, Duration to);

 private:
  Duration serve(std::size_t bytes, Duration ready);
  Duration serve_at_rates(double bits, Duration ready) const;
  Duration serve_at_opportunities(std::size_t bytes, Duration ready);

  const PathSettings& settings_;
  std::deque<std::pair<Duration, std::size_t>> queue_;  // waiting packets: when they pass, bytes
  std::size_t waiting_ = 0;                             // bytes in queue_
  Duration free_at_{0};
  // The current opportunity, numbered through all repetitions of the trace, and its remaining
  // bytes.
  std::uint64_t opportunity_ = 0;
  std::size_t left_ = kOpportunityBytes;
};

// One-way delays: the mean with jitter, or the delays of a trace.
class Jitter final {
 public:
  // settings must outlive this object.
  Jitter(const PathSettings& settings, std::uint64_t seed);

  // The delay of a packet that enters at this time since the start; times must not fall.
  Duration at(Duration since_start);

  // The smallest delay that the settings allow.
  static Duration floor_of(const PathSettings& settings);

 private:
  const PathSettings& settings_;
  SeededRandom random_;
  double deviate_ = 0;  // a standard normal deviate, at last_
  Duration last_{0};
};

// Decides which packets are lost: single ones, in bursts, and in windows of time.
class LossModel final {
 public:
  // settings must outlive this object.
  LossModel(const LossSettings& settings, std::uint64_t seed)
      : settings_(settings), random_(seed) {}

  // Whether the next packet, which passes at this time since the start, is lost.
  bool loses(Duration since_start);

 private:
  const LossSettings& settings_;
  SeededRandom random_;
  bool bad_ = false;
};

// The loss share of a window at that time; 0 outside of all windows.
double window_loss(const LossSettings& settings, Duration since_start);

// The long-run share of evenly sent packets that is lost.
double mean_loss(const LossSettings& settings);

struct Fate {
  enum class Kind : std::uint8_t { kArrives, kQueueFull, kLost, kSilent };

  Kind kind = Kind::kArrives;
  // When it arrives; for a lost packet, when it would have arrived. Otherwise nothing.
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

  // bytes: of the whole packet with its headers.
  Fate send(std::size_t bytes, Duration now);

  // Whether a retransmission at that time is lost too.
  bool loses_again(Duration at) { return loss_.loses(at); }
  // Whether the queue has room; if not, next_departure() is when it may have room.
  bool has_room(std::size_t bytes, Duration now) {
    return !settings_.has_rate() || bottleneck_.has_room(bytes, now);
  }
  Duration next_departure() const { return bottleneck_.next_departure(); }

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
  SeededRandom random_;  // of duplicates and reordering
  Duration last_due_{0};
  Duration last_passed_{0};  // the bottleneck
  PathCounts counts_;
};

}  // namespace outrider
