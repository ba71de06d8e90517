// What a link has carried, in messages and in their bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace outrider {

// Bytes of messages since construction. With gRPC's and HTTP/2's framing, but without headers,
// TCP and IP: payload + kFramingBytes * messages.
struct LinkBytes {
  std::uint64_t messages_up = 0;
  std::uint64_t payload_up = 0;
  std::uint64_t messages_down = 0;
  std::uint64_t payload_down = 0;

  std::uint64_t framed_up() const;
  std::uint64_t framed_down() const;
};

// Counts them. Thread rule: any thread.
class LinkCounters final {
 public:
  void add_up(std::size_t bytes) {
    messages_up_.fetch_add(1, std::memory_order_relaxed);
    payload_up_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void add_down(std::size_t bytes) {
    messages_down_.fetch_add(1, std::memory_order_relaxed);
    payload_down_.fetch_add(bytes, std::memory_order_relaxed);
  }
  LinkBytes bytes() const {
    return {messages_up_.load(std::memory_order_relaxed),
            payload_up_.load(std::memory_order_relaxed),
            messages_down_.load(std::memory_order_relaxed),
            payload_down_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> messages_up_{0};
  std::atomic<std::uint64_t> payload_up_{0};
  std::atomic<std::uint64_t> messages_down_{0};
  std::atomic<std::uint64_t> payload_down_{0};
};

}  // namespace outrider
