// A proxied link (proxy_link.h) that delays and does nothing else: what the checks run on that hold
// latencies against a law.
//
//   auto link = *DelayLink::start({.upstream = server.address(), .one_way = from_ms(42)});
//   // connect to link->address() instead; a request and its answer now take 84 ms more
//
// Every byte leaves `one_way` after it arrived, in both directions, in order, at any bandwidth.
//
// Thread rule: one thread of its own; all members may be called from anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "bench/link/proxy_link.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct DelayLinkOptions {
  Address upstream;  // host: a numeric IPv4 address
  Duration one_way{0};
};

using DelayLinkTraffic = CarriedBytes;

class DelayLink final {
 public:
  static constexpr std::size_t kMaxInFlight = ProxyLink::kMaxInFlight;

  static Result<std::unique_ptr<DelayLink>> start(const DelayLinkOptions& options) {
    if (options.one_way < Duration::zero()) return invalid_argument("link: the delay is negative");
    std::unique_ptr<DelayLink> link(new DelayLink(options.one_way));
    OUTRIDER_RETURN_IF_ERROR(link->proxy_.route(options.upstream).status());
    return link;
  }

  const Address& address() const { return proxy_.address(); }
  // Holds for bytes that arrive from now on; none overtakes another.
  void set_one_way(Duration one_way) { proxy_.set_one_way(one_way); }
  DelayLinkTraffic traffic() const { return proxy_.traffic(); }

 private:
  explicit DelayLink(Duration one_way) : proxy_(delay_profile(one_way), 0) {}

  ProxyLink proxy_;
};

}  // namespace outrider
