// An emulated link: two network namespaces, joined by two TUN devices. Our forwarder delays, shapes
// and drops their packets. Programs in the namespaces use the kernel's own TCP, which sees the
// losses, the queue and the reordering as on a real link. Needs root.
//
// Servers on it listen beyond loopback (server_side().host), so programs need --insecure. Nothing
// outside of the two namespaces can reach them.
//
// Everything goes with its descriptors: programs in the namespaces end with the thread that started
// them (emulation/process), and then nothing holds the namespaces.
//
// Thread rule: one thread; traffic() and forwarder() from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "emulation/link/link.h"
#include "emulation/process/net_namespace.h"

namespace outrider {

// How late packets were written, in a histogram with steps of 10 us.
class Lateness final {
 public:
  static constexpr Duration kStep = std::chrono::microseconds(10);
  static constexpr std::size_t kSteps = 10'000;  // the last step counts all later ones

  void add(Duration late) {
    const auto step = static_cast<std::size_t>(std::max<Duration::rep>(late / kStep, 0));
    counts_[std::min(step, kSteps - 1)].fetch_add(1, std::memory_order_relaxed);
  }

  std::vector<std::uint64_t> counts() const { return {counts_.begin(), counts_.end()}; }

 private:
  std::array<std::atomic<std::uint64_t>, kSteps> counts_{};
};

// Packets in flight, ordered by due time; packets of one time in the order in which they were
// added.
using Packet = std::vector<std::byte>;

class PacketHeap final {
 public:
  void add(Duration due, Packet packet) {
    entries_.push_back({due, next_order_++, std::move(packet)});
    std::push_heap(entries_.begin(), entries_.end(), later);
  }

  std::optional<Duration> next_due() const {
    if (entries_.empty()) return std::nullopt;
    return entries_.front().due;
  }

  // Only if it is not empty.
  Packet take() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    Packet packet = std::move(entries_.back().packet);
    entries_.pop_back();
    return packet;
  }

 private:
  struct Entry {
    Duration due;
    std::uint64_t order;
    Packet packet;
  };

  static bool later(const Entry& a, const Entry& b) {
    return std::pair(a.due, a.order) > std::pair(b.due, b.order);
  }

  std::vector<Entry> entries_;  // a heap
  std::uint64_t next_order_ = 0;
};

// Returns false if it was refused; then the thread keeps its scheduling.
inline bool make_real_time(int priority) {
  prctl(PR_SET_TIMERSLACK, 1UL);  // timers are exact even where SCHED_FIFO is refused
  const sched_param parameters{.sched_priority = priority};
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
}

// The link has priority over the probes that measure it.
inline constexpr int kForwarderPriority = 50;
inline constexpr int kProbePriority = 40;

// A TUN device: a network interface whose packets a program reads and writes.

// Numeric IPv4 addresses of a point-to-point interface.
struct TunAddresses {
  std::string own;
  std::string peer;
};

inline constexpr int kTunMtu = 1500;

// Makes one in this network namespace and brings it up. Each read() of the non-blocking descriptor
// returns one IP packet that the namespace sends; each write() delivers one to it. The interface
// disappears with the descriptor. FAILED_PRECONDITION without /dev/net/tun or the right to use it.
Result<UniqueFd> open_tun(int network_namespace, const TunAddresses& addresses);

// The link itself: carries packets between two TUN devices according to a profile.
//
// Its thread runs under SCHED_FIFO, so that other work does not delay packets. If that is refused
// it runs with normal scheduling, and is_real_time() returns false.
class Forwarder final {
 public:
  // Non-blocking descriptors, one packet per read or write; the forwarder keeps them.
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
  // The same as Link's.
  void begin_again(Duration offset, std::uint64_t seed) { restart_.ask({offset, seed}); }
  CarriedBytes traffic() const { return {up_bytes_.load(), down_bytes_.load()}; }
  LinkCounts counts() const { return {up_counts_.read(), down_counts_.read()}; }
  // The time from when a packet was due to when it was written.
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

class TunLink final : public Link {
 public:
  // Errors: FAILED_PRECONDITION without root or TUN devices; INVALID_ARGUMENT for a profile with a
  // reset, because only a proxy resets connections.
  static Result<std::unique_ptr<TunLink>> start(const LinkProfile& profile, std::uint64_t seed);

  const LinkProfile& profile() const override { return profile_; }
  const char* kind() const override { return "emulated"; }
  NetworkSide edge_side() const override;
  NetworkSide server_side() const override;
  Result<Address> route(const Address& server) override { return server; }
  CarriedBytes traffic() const override { return forwarder_->traffic(); }
  LinkCounts counts() const override { return forwarder_->counts(); }
  void begin_again(Duration offset, std::uint64_t seed) override {
    forwarder_->begin_again(offset, seed);
  }

  const Forwarder& forwarder() const { return *forwarder_; }

 private:
  TunLink(LinkProfile profile, NetNamespace edge, NetNamespace server,
          std::unique_ptr<Forwarder> forwarder)
      : profile_(std::move(profile)),
        edge_(std::move(edge)),
        server_(std::move(server)),
        forwarder_(std::move(forwarder)) {}

  const LinkProfile profile_;
  const NetNamespace edge_;
  const NetNamespace server_;
  const std::unique_ptr<Forwarder> forwarder_;
};

}  // namespace outrider
