// A network link between an edge and a server, with a profile (emulation/path/link_profile.h).
//
//   auto link = *start_link(profile, {.seed = 1});
//   // start the server with link->server_side(), then
//   const Address address = *link->route(server_address);
//   // start the edge with link->edge_side(); it connects to `address`
//
// There are two kinds. "emulated" is real TCP over packets that are delayed and lost (tun_link.h;
// needs root). "modelled" is a TCP proxy, so the kernels on both sides acknowledge at once
// (proxy_link.h).
//
// Thread rule: one thread; traffic() and counts() from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "emulation/path/link_condition.h"
#include "emulation/path/link_profile.h"
#include "emulation/process/process.h"

namespace outrider {

// Asks a link's own thread to restart its profile.
class LinkRestart final {
 public:
  struct Request {
    Duration offset{0};      // the profile's own time at the restart
    std::uint64_t seed = 0;  // of jitter and loss from the restart on
  };

  void ask(const Request& request) {
    const MutexLock lock(mu_);
    request_ = request;
    asked_.store(true, std::memory_order_release);
  }

  // The newest request since the last call. Costs one atomic load if there is none.
  std::optional<Request> take() {
    if (!asked_.load(std::memory_order_acquire)) return std::nullopt;
    const MutexLock lock(mu_);
    asked_.store(false, std::memory_order_relaxed);
    return std::exchange(request_, std::nullopt);
  }

 private:
  std::atomic<bool> asked_{false};
  Mutex mu_;
  std::optional<Request> request_ OUTRIDER_GUARDED_BY(mu_);
};

// The counts of a path: its link's thread publishes them and other threads read them.
class SharedPathCounts final {
 public:
  void publish(const PathCounts& counts) {
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      values_[i].store(counts.*kFields[i].second, std::memory_order_relaxed);
    }
  }

  // Each figure as it was last published; the figures may be of different moments.
  PathCounts read() const {
    PathCounts counts;
    for (std::size_t i = 0; i < kFields.size(); ++i) {
      counts.*kFields[i].second = values_[i].load(std::memory_order_relaxed);
    }
    return counts;
  }

 private:
  static constexpr auto kFields = PathCounts::fields();

  std::array<std::atomic<std::uint64_t>, kFields.size()> values_{};
};

// Bytes that left the link. A proxy counts the TCP payload of all connections, with the headers,
// pings and windows of gRPC and HTTP/2 but without TCP's and IP's headers. TUN devices count IP
// packets.
struct CarriedBytes {
  std::uint64_t up = 0;  // to the server
  std::uint64_t down = 0;
};

class Link {
 public:
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  virtual const LinkProfile& profile() const = 0;
  // "emulated" or "modelled", for reports.
  virtual const char* kind() const = 0;

  // Where the programs of each end run. The link owns the namespaces.
  virtual NetworkSide edge_side() const = 0;
  virtual NetworkSide server_side() const = 0;
  // The address at which the edge reaches a server that listens at `server` on the server's side.
  // Call it once.
  virtual Result<Address> route(const Address& server) = 0;

  virtual CarriedBytes traffic() const = 0;
  // The counts of packets since the profile last began. A proxy's packets are the pieces in which
  // it reads bytes.
  virtual LinkCounts counts() const = 0;

  // With the next bytes the profile restarts at this offset with this seed. So two programs that
  // run one after the other meet the same conditions. Only between connections: what is in flight
  // arrives at once or is cut off.
  virtual void begin_again(Duration offset, std::uint64_t seed) = 0;

 protected:
  Link() = default;
};

enum class LinkKind : std::uint8_t { kBest, kEmulated, kModelled };  // kBest: emulated if possible

template <>
inline constexpr auto enum_names<LinkKind> =
    std::to_array<EnumName<LinkKind>>({{LinkKind::kBest, "best"},
                                       {LinkKind::kEmulated, "emulated"},
                                       {LinkKind::kModelled, "modelled"}});

struct LinkOptions {
  std::uint64_t seed = 0;
  LinkKind kind = LinkKind::kBest;
};

// Errors: FAILED_PRECONDITION, with the reason, if an emulated link is requested but not possible
// (no root, no TUN device); INVALID_ARGUMENT for what the kind cannot do.
Result<std::unique_ptr<Link>> start_link(const LinkProfile& profile, const LinkOptions& options);

}  // namespace outrider
