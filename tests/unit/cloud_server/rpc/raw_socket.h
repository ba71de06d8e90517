// A plain TCP peer for arbitrary bytes, and the HTTP/2 frames that tests need.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/address.h"

namespace outrider {

class RawSocket final {
 public:
  // from: the address that it comes by; empty: whichever.
  explicit RawSocket(const Address& server, const std::string& from = "");
  ~RawSocket();
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  bool connected() const { return fd_ >= 0; }
  // The port of this side.
  std::uint16_t port() const;
  // False once the server has closed the connection.
  bool send(std::string_view bytes);
  // Everything until the server closes; fails the test after half a minute.
  std::string read_until_closed();
  // Reads until `wanted` has come; false if the server closes or half a minute passes before.
  bool read_until(std::string_view wanted);

 private:
  // Waits for bytes; empty when closed or too late.
  std::string read_some();

  int fd_ = -1;
  std::string unread_;
};

namespace http2 {

enum class Frame : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};

inline constexpr std::uint8_t kEndStream = 1;
inline constexpr std::uint8_t kAck = 1;
inline constexpr std::uint8_t kEndHeaders = 4;

std::string frame(Frame type, std::uint8_t flags, std::uint32_t stream, std::string_view payload);
// The client's preface and empty SETTINGS.
std::string hello();
// A literal header field without indexing; name and value shorter than 127 bytes.
std::string header(std::string_view name, std::string_view value);
// The headers of a call of Generate.
std::string request_headers();
// gRPC's length prefix.
std::string message_prefix(std::uint32_t length);

}  // namespace http2
}  // namespace outrider
