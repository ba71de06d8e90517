// SPDX-License-Identifier: Apache-2.0
#include "bench/probe/probe_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <optional>
#include <string>
#include <utility>

#include "common/base/posix.h"
#include "emulation/process/net_namespace.h"

namespace outrider {
namespace {

Status probe_failed(const char* step) {
  return unavailable(std::string("link probe: ") + step + ": " + errno_message(errno));
}

Result<sockaddr_in> socket_address(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return invalid_argument("link probe: '" + host + "' is no numeric IPv4 address");
  }
  return address;
}

// A socket stays in the namespace in which it was opened.
Result<UniqueFd> bound_socket(const NetworkSide& side, int type) {
  std::optional<InNamespace> inside;
  if (side.network_namespace) {
    OUTRIDER_ASSIGN_OR_RETURN(InNamespace entered, InNamespace::enter(*side.network_namespace));
    inside.emplace(std::move(entered));
  }
  UniqueFd fd(socket(AF_INET, type | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return probe_failed("no socket");
  OUTRIDER_ASSIGN_OR_RETURN(const sockaddr_in own, socket_address(side.host, 0));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    return probe_failed("cannot bind");
  }
  return fd;
}

}  // namespace

Result<UniqueFd> udp_socket(const NetworkSide& side) {
  OUTRIDER_ASSIGN_OR_RETURN(UniqueFd fd, bound_socket(side, SOCK_DGRAM | SOCK_NONBLOCK));
  const int bytes = 8 << 20;
  // Only root may exceed the system's limit; without it bursts may be lost.
  if (setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) != 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  }
  return fd;
}

Result<UniqueFd> tcp_listener(const NetworkSide& side) {
  OUTRIDER_ASSIGN_OR_RETURN(UniqueFd fd, bound_socket(side, SOCK_STREAM | SOCK_NONBLOCK));
  if (listen(fd.get(), SOMAXCONN) != 0) return probe_failed("cannot listen");
  return fd;
}

Result<UniqueFd> tcp_connection(const NetworkSide& side, const Address& to) {
  OUTRIDER_ASSIGN_OR_RETURN(UniqueFd fd, bound_socket(side, SOCK_STREAM));
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A link may carry nothing at all, so no probe waits longer than this.
  constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  OUTRIDER_RETURN_IF_ERROR(connect_to(fd.get(), to));
  return fd;
}

Result<Address> local_address(int socket) {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  std::array<char, INET_ADDRSTRLEN> host{};
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
      inet_ntop(AF_INET, &own.sin_addr, host.data(), host.size()) == nullptr) {
    return probe_failed("no own address");
  }
  return Address{host.data(), ntohs(own.sin_port)};
}

Status connect_to(int socket, const Address& to) {
  OUTRIDER_ASSIGN_OR_RETURN(const sockaddr_in peer, socket_address(to.host, to.port));
  if (connect(socket, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0) {
    return probe_failed("cannot connect");
  }
  return {};
}

void wait_readable(int socket, TimePoint until) {
  const auto left = std::max<Duration::rep>((until - SystemClock().now()).count(), 0);
  const timespec timeout = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  pollfd polled{socket, POLLIN, 0};
  ppoll(&polled, 1, &timeout, nullptr);
}

}  // namespace outrider
