// A TCP link through a proxy in user space: needs no rights. Modelled: what it carries is real, the
// distance is not, and neither is what packets do to TCP: the kernels on both sides of the proxy
// acknowledge at once, so loss is a delay here and a half-open link looks alive to the sender.
// path/stream_path.h says what each impairment becomes; reset closes connections with RST.
//
// The kernel's handshake with us is not delayed; the end of a stream is delayed as its bytes are.
// At most kMaxInFlight bytes a direction are on their way; then the sender waits, as on a real link
// with that product of bandwidth and delay. Connections share the rate and its queue.
//
// Thread rule: one thread of its own; set_one_way(), address(), traffic() and counts() from
// anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "bench/link/link.h"
#include "bench/link/link_restart.h"
#include "bench/link/shared_path_counts.h"
#include "common/base/clock.h"
#include "common/base/posix.h"

namespace outrider {

class ProxyLink final : public Link {
 public:
  static constexpr std::size_t kMaxInFlight = std::size_t{8} << 20;

  ProxyLink(LinkProfile profile, std::uint64_t seed);
  // Cuts what is connected.
  ~ProxyLink() override;

  const LinkProfile& profile() const override { return profile_; }
  const char* kind() const override { return "modelled"; }
  NetworkSide edge_side() const override { return {}; }
  NetworkSide server_side() const override { return {}; }
  // server: its host is a numeric IPv4 address. Time counts from here.
  Result<Address> route(const Address& server) override;
  CarriedBytes traffic() const override { return {up_.load(), down_.load()}; }
  LinkCounts counts() const override {
    return {up_counts_.read(), down_counts_.read(), resets_.load()};
  }
  void begin_again(Duration offset, std::uint64_t seed) override { restart_.ask({offset, seed}); }

  const Address& address() const { return address_; }
  // From now on both directions have this delay and no jitter; none overtakes another.
  void set_one_way(Duration one_way) { one_way_ns_.store(one_way.count()); }

 private:
  class Loop;

  const LinkProfile profile_;
  const std::uint64_t seed_;
  Address upstream_;
  Address address_;
  UniqueFd listener_;
  UniqueFd stop_;                              // an eventfd
  std::atomic<Duration::rep> one_way_ns_{-1};  // negative: as the profile says
  LinkRestart restart_;
  std::atomic<std::uint64_t> up_{0};
  std::atomic<std::uint64_t> down_{0};
  SharedPathCounts up_counts_;
  SharedPathCounts down_counts_;
  std::atomic<std::uint64_t> resets_{0};  // of connections
  std::thread thread_;
};

}  // namespace outrider
