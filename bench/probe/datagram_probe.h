// Measures an emulated link with datagrams: round trips, and the arrivals of a flood.
//
// Thread rule: free functions that block. Each uses threads of its own, with real-time scheduling
// if permitted. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "emulation/link/link.h"
#include "emulation/process/process.h"

namespace outrider {

// Returns every datagram at once: the far end of a round trip probe.
class DatagramEcho final {
 public:
  static Result<std::unique_ptr<DatagramEcho>> start(const NetworkSide& side);
  ~DatagramEcho();
  DatagramEcho(const DatagramEcho&) = delete;
  DatagramEcho& operator=(const DatagramEcho&) = delete;

  const Address& address() const { return address_; }

 private:
  DatagramEcho(UniqueFd socket, Address address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  void run() const;

  const UniqueFd socket_;
  const Address address_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

inline constexpr std::size_t kProbeBytes = 92;  // of a round trip's IP packets

struct RoundTrips {
  std::vector<Duration> times;            // when each was actually sent, from `start`
  std::vector<std::optional<double>> ms;  // round trip of each; nothing if it did not come back
};

// Sends a datagram at each of these ascending times after `start`, and waits for the last answers.
Result<RoundTrips> probe_round_trips(const Link& link, TimePoint start,
                                     std::span<const Duration> times);

struct Flood {
  double bit_per_s = 0;  // of whole IP packets of 1500 bytes
  Duration from{0};      // after `start`
  Duration length{0};
};

struct FloodResult {
  std::size_t sent = 0;  // packets
  // IP bytes by the time after `start` at which they arrived.
  std::vector<std::pair<Duration, std::size_t>> arrivals;

  // Bytes that arrived in [from, to).
  double bytes_between(Duration from, Duration to) const;
};

// Floods one direction; packets that arrive later than `drain` after the flood's end are not
// counted.
Result<FloodResult> flood_link(const NetworkSide& from, const NetworkSide& to, TimePoint start,
                               const Flood& flood, Duration drain);

}  // namespace outrider
