// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cloud_server/rpc/raw_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "proto/byte_buffer.h"

namespace outrider {
namespace {

constexpr int kPatienceMs = 30'000;

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

SocketAddress socket_address(const std::string& host, std::uint16_t port) {
  SocketAddress out;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.bytes);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.bytes);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    out.size = sizeof v4;
  } else if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    out.size = sizeof v6;
  }
  return out;
}

}  // namespace

RawSocket::RawSocket(const Address& server, const std::string& from) {
  const SocketAddress there = socket_address(server.host, server.port);
  const SocketAddress own = socket_address(from, 0);
  fd_ = socket(there.bytes.ss_family, SOCK_STREAM, 0);
  const bool bound = from.empty() || bind(fd_, own.get(), own.size) == 0;
  if (bound && connect(fd_, there.get(), there.size) == 0) return;
  close(fd_);
  fd_ = -1;
}

RawSocket::~RawSocket() {
  if (fd_ >= 0) close(fd_);
}

std::uint16_t RawSocket::port() const {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.sin_port);
}

bool RawSocket::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string RawSocket::read_some() {
  pollfd waiting{fd_, POLLIN, 0};
  if (poll(&waiting, 1, kPatienceMs) != 1) {
    ADD_FAILURE() << "the server neither answered nor closed";
    return "";
  }
  std::array<char, 4096> buffer;
  const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : "";
}

std::string RawSocket::read_until_closed() {
  std::string all = std::move(unread_);
  for (std::string some = read_some(); !some.empty(); some = read_some()) all += some;
  return all;
}

bool RawSocket::read_until(std::string_view wanted) {
  while (true) {
    const std::size_t at = unread_.find(wanted);
    if (at != std::string::npos) {
      unread_.erase(0, at + wanted.size());
      return true;
    }
    const std::string some = read_some();
    if (some.empty()) return false;
    unread_ += some;
  }
}

namespace http2 {
namespace {

void append_big_endian(std::string& out, std::uint32_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out.push_back(static_cast<char>(value >> shift));
  }
}

}  // namespace

std::string frame(Frame type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
  std::string out;
  append_big_endian(out, static_cast<std::uint32_t>(payload.size()), 3);
  out.push_back(static_cast<char>(type));
  out.push_back(static_cast<char>(flags));
  append_big_endian(out, stream, 4);
  return out + std::string(payload);
}

std::string hello() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(Frame::kSettings, 0, 0, "");
}

std::string header(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  out.push_back(static_cast<char>(name.size()));
  out += name;
  out.push_back(static_cast<char>(value.size()));
  out += value;
  return out;
}

std::string request_headers() {
  return header(":method", "POST") + header(":scheme", "http") + header(":path", kGenerateMethod) +
         header(":authority", "localhost") + header("te", "trailers") +
         header("content-type", "application/grpc");
}

std::string message_prefix(std::uint32_t length) {
  std::string out(1, '\0');
  append_big_endian(out, length, 4);
  return out;
}

}  // namespace http2
}  // namespace outrider
