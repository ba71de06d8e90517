// Packets on their way, the one that is due first in front; of two that are due together the one
// that was added first.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

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

  // Only if there is one.
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

}  // namespace outrider
