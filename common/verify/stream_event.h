// Which stream, of those that one verifier serves, an event belongs to, and whose it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "common/protocol/verifier.h"

namespace outrider {

using StreamId = std::uint64_t;

struct StreamEvent {
  StreamId stream;
  VerifierEvent event;
};

// The payload of a stream's messages, both ways, as its carrier counts it.
class StreamTraffic final {
 public:
  void add_up(std::uint64_t bytes) { up_.fetch_add(bytes, std::memory_order_relaxed); }
  void add_down(std::uint64_t bytes) { down_.fetch_add(bytes, std::memory_order_relaxed); }
  void set_down(std::uint64_t bytes) { down_.store(bytes, std::memory_order_relaxed); }
  std::uint64_t up() const { return up_.load(std::memory_order_relaxed); }
  std::uint64_t down() const { return down_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> up_{0};  // from the edge
  std::atomic<std::uint64_t> down_{0};
};

// For whom a stream came.
struct StreamOwner {
  std::string tenant = {};  // whose session ids and keys these are; empty: no one was asked
  std::string group = {};   // with whom it shares what is kept; the tenant, or the peer's address
  std::string request_id = {};  // for the log; empty: none came
  // It is told a load instead of how long others kept the device.
  bool coarse_times = false;
  std::shared_ptr<const StreamTraffic> traffic = {};  // null: nobody counts it
};

}  // namespace outrider
