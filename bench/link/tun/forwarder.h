// Carries packets between two TUN devices as a profile says: the link itself.
//
// Its thread runs under SCHED_FIFO, so that other work does not hold packets up; where that is
// refused it runs as any other, and is_real_time() says so.
//
// Thread rule: one thread of its own; all members may be called from anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "bench/link/link.h"
#include "bench/link/link_restart.h"
#include "bench/link/shared_path_counts.h"
#include "bench/link/tun/lateness.h"
#include "common/base/clock.h"
#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

class Forwarder final {
 public:
  // Non-blocking descriptors that give and take one packet at a time; kept.
  struct Devices {
    UniqueFd edge;
    UniqueFd server;
  };

  static Result<std::unique_ptr<Forwarder>> start(Devices devices, const LinkProfile& profile,
                                                  std::uint64_t seed);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  // The link's start: times of its profile count from here.
  TimePoint start_time() const { return start_; }
  bool is_real_time() const { return real_time_.load(); }
  // As Link's.
  void begin_again(Duration offset, std::uint64_t seed) { restart_.ask({offset, seed}); }
  CarriedBytes traffic() const { return {up_bytes_.load(), down_bytes_.load()}; }
  LinkCounts counts() const { return {up_counts_.read(), down_counts_.read()}; }
  // From when a packet was due to when it had been written.
  const Lateness& lateness() const { return lateness_; }

 private:
  class Loop;

  Forwarder(Devices devices, UniqueFd stop);

  const Devices devices_;
  const UniqueFd stop_;  // an eventfd
  const TimePoint start_;
  std::atomic<bool> real_time_{false};
  std::atomic<bool> started_{false};  // real_time_ is known
  std::atomic<std::uint64_t> up_bytes_{0};
  std::atomic<std::uint64_t> down_bytes_{0};
  SharedPathCounts up_counts_;
  SharedPathCounts down_counts_;
  Lateness lateness_;
  LinkRestart restart_;
  std::thread thread_;
};

}  // namespace outrider
