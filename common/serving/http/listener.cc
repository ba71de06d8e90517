// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

namespace outrider {
namespace {

struct FreeFound {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Found = std::unique_ptr<addrinfo, FreeFound>;

Result<Found> resolve(const Address& address) {
  OUTRIDER_RETURN_IF_ERROR(check_is_tcp(address.host));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string host(without_brackets(address.host));
  const std::string port = std::to_string(address.port);
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found)) {
    return cannot_listen(address, gai_strerror(error));
  }
  return Found(found);
}

// Not valid on failure; errno has the reason.
UniqueFd open_socket(const addrinfo& where) {
  UniqueFd fd(socket(where.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), where.ai_addr, where.ai_addrlen) == 0 && listen(fd.get(), SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  fd.reset();
  errno = error;
  return fd;
}

void set_port(sockaddr& address, std::uint16_t port) {
  (address.sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                 : reinterpret_cast<sockaddr_in&>(address).sin_port) = htons(port);
}

}  // namespace

Status cannot_listen(const Address& address, const std::string& why) {
  return unavailable("cannot listen on " + address.to_string() + ": " + why +
                     "; choose another host or port (0 takes a free port)");
}

Result<int> listen_on(const Address& address) {
  OUTRIDER_ASSIGN_OR_RETURN(const Found found, resolve(address));
  UniqueFd fd = open_socket(*found);
  if (!fd.valid()) return cannot_listen(address, errno_message(errno));
  return fd.release();
}

Result<std::vector<UniqueFd>> listen_on_all(const Address& address) {
  OUTRIDER_ASSIGN_OR_RETURN(const Found found, resolve(address));
  std::vector<UniqueFd> all;
  int missing = 0;
  for (addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    if (!all.empty()) set_port(*at->ai_addr, port_of(all.front().get()));
    UniqueFd fd = open_socket(*at);
    if (fd.valid()) {
      all.push_back(std::move(fd));
    } else if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) {
      missing = errno;
    } else {
      return cannot_listen(address, errno_message(errno));
    }
  }
  if (all.empty()) return cannot_listen(address, errno_message(missing));
  return all;
}

std::uint16_t port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::size_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace outrider
