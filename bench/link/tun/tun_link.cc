// SPDX-License-Identifier: Apache-2.0
#include "bench/link/tun/tun_link.h"

#include "bench/link/tun/tun_device.h"

namespace outrider {
namespace {

// Of the private range; other links may use the same, as each has its own namespaces.
constexpr const char* kEdgeAddress = "10.77.0.1";
constexpr const char* kServerAddress = "10.77.0.2";

}  // namespace

Result<std::unique_ptr<TunLink>> TunLink::start(const LinkProfile& profile, std::uint64_t seed) {
  if (profile.reset_at) {
    return invalid_argument("network '" + profile.name +
                            "': an emulated link resets no connections; a modelled one does");
  }
  OUTRIDER_ASSIGN_OR_RETURN(NetNamespace edge, NetNamespace::create());
  OUTRIDER_ASSIGN_OR_RETURN(NetNamespace server, NetNamespace::create());
  Forwarder::Devices devices;
  OUTRIDER_ASSIGN_OR_RETURN(devices.edge, open_tun(edge.fd(), {kEdgeAddress, kServerAddress}));
  OUTRIDER_ASSIGN_OR_RETURN(devices.server, open_tun(server.fd(), {kServerAddress, kEdgeAddress}));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Forwarder> forwarder,
                            Forwarder::start(std::move(devices), profile, seed));
  return std::unique_ptr<TunLink>(
      new TunLink(profile, std::move(edge), std::move(server), std::move(forwarder)));
}

NetworkSide TunLink::edge_side() const {
  return {kEdgeAddress, edge_.fd()};
}

NetworkSide TunLink::server_side() const {
  return {kServerAddress, server_.fd()};
}

}  // namespace outrider
