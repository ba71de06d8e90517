// The slowest part of a path: one packet after the other, each as long as its bytes take at the
// rate of that moment; what waits stands in a bounded queue.
//
// Times count from the link's start and must not fall. Thread rule: one thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "bench/link/path/path_settings.h"

namespace outrider {

class Bottleneck final {
 public:
  static constexpr std::size_t kOpportunityBytes = 1500;

  // settings must outlive this; its traces hold what path_settings.h says of them and let
  // something pass.
  explicit Bottleneck(const PathSettings& settings);

  // When the packet has passed; nothing if the queue has no room for it.
  std::optional<Duration> pass(std::size_t bytes, Duration now);

  // Whether the queue has room for so many bytes; if not, when it may have.
  bool has_room(std::size_t bytes, Duration now);
  Duration next_departure() const { return queue_.front().first; }

  // Bytes that the path lets pass in [from, to), if there always are some to pass.
  static double capacity(const PathSettings& settings, Duration from, Duration to);

 private:
  Duration serve(std::size_t bytes, Duration ready);
  Duration serve_at_rates(double bits, Duration ready) const;
  Duration serve_at_opportunities(std::size_t bytes, Duration ready);

  const PathSettings& settings_;
  std::deque<std::pair<Duration, std::size_t>> queue_;  // what has not passed: when it will, bytes
  std::size_t waiting_ = 0;                             // bytes in queue_
  Duration free_at_{0};
  // The opportunity in use, counted through all rounds of the trace, and what is left of it.
  std::uint64_t opportunity_ = 0;
  std::size_t left_ = kOpportunityBytes;
};

}  // namespace outrider
