// An emulated link: two network namespaces, joined by two TUN devices whose packets our forwarder
// delays, shapes and drops. What runs in the namespaces uses the kernel's own TCP, which sees the
// losses, the queue and the reordering of the profile as it would on a real link. Needs root.
//
// Servers on it listen beyond loopback (server_side().host), so programs want --insecure; nothing
// outside the two namespaces can reach them.
//
// Cleans up with its descriptors: programs that were started in the namespaces end with the thread
// that started them (bench/process), then nothing holds the namespaces any more.
//
// Thread rule: one thread; traffic() and forwarder() from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "bench/link/link.h"
#include "bench/link/tun/forwarder.h"
#include "bench/link/tun/net_namespace.h"

namespace outrider {

class TunLink final : public Link {
 public:
  // Errors: FAILED_PRECONDITION without root or TUN devices; INVALID_ARGUMENT for a profile with a
  // reset: only a proxy ends connections.
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
