// A TCP link with a delay, in user space: `tc netem delay` where the kernel or the rights for it
// are missing. Emulated: what it carries is real, the distance is not.
//
//   auto link = *DelayLink::start({.upstream = server.address(), .one_way = from_ms(42)});
//   // connect to link->address() instead; a request and its answer now take 84 ms more
//
// Every byte leaves `one_way` after it arrived, in both directions, in order, at any bandwidth. The
// kernel's handshake with us is not delayed, nothing is lost, and the end of a stream is delayed as
// its bytes are. At most kMaxInFlight bytes a direction are on their way; then the sender waits, as
// on a real link with that product of bandwidth and delay.
//
// Thread rule: one thread of its own; all members may be called from anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "bench/process/unique_fd.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct DelayLinkOptions {
  Address upstream;  // host: a numeric IPv4 address
  Duration one_way{0};
};

// Bytes of TCP payload that left the link, all connections together: with gRPC's and HTTP/2's
// headers, pings and windows, without TCP's and IP's own headers.
struct DelayLinkTraffic {
  std::uint64_t up = 0;  // to upstream
  std::uint64_t down = 0;
};

class DelayLink final {
 public:
  static constexpr std::size_t kMaxInFlight = std::size_t{8} << 20;

  static Result<std::unique_ptr<DelayLink>> start(const DelayLinkOptions& options);
  // Cuts what is connected.
  ~DelayLink();
  DelayLink(const DelayLink&) = delete;
  DelayLink& operator=(const DelayLink&) = delete;

  const Address& address() const { return address_; }
  // Holds for bytes that arrive from now on; none overtakes another.
  void set_one_way(Duration one_way) { one_way_ns_.store(one_way.count()); }
  DelayLinkTraffic traffic() const { return {up_.load(), down_.load()}; }

 private:
  class Loop;

  explicit DelayLink(const DelayLinkOptions& options);

  const Address upstream_;
  Address address_;
  UniqueFd listener_;
  UniqueFd stop_;  // an eventfd
  std::atomic<Duration::rep> one_way_ns_;
  std::atomic<std::uint64_t> up_{0};
  std::atomic<std::uint64_t> down_{0};
  std::thread thread_;
};

}  // namespace outrider
