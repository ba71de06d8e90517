// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "cloud_server/rpc/caller.h"
#include "common/http/listener.h"
#include "proto/byte_buffer.h"

namespace outrider {
namespace {

// How long a gate without descriptors waits for some.
constexpr int kPauseMs = 100;

// The address alone; one of IPv4 is the same host however it came.
std::string host_in(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  } else if (peer.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    } else {
      inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    }
  }
  return text.data();
}

std::string endpoint(const std::string& host, const std::string& port) {
  return host + " " + port;
}

std::uint16_t port_in(const sockaddr_storage& peer) {
  return ntohs(peer.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(peer).sin_port
                                         : reinterpret_cast<const sockaddr_in6&>(peer).sin6_port);
}

// As gRPC writes peers.
std::string endpoint_of(const std::string& peer) {
  return endpoint(host_of(peer), peer.substr(peer.rfind(':') + 1));
}

// As gRPC sets up what it accepts itself: no waiting for more bytes, and no waiting for a peer that
// does not acknowledge for as long as it does not answer pings.
void set_up(int connection) {
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto patience = static_cast<unsigned>(kKeepaliveTimeout.count());
  setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

// That is no fault of the connection that waits: it stays in the queue.
bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Result<std::unique_ptr<ConnectionGate>> ConnectionGate::listen(ConnectionGateOptions options) {
  std::unique_ptr<ConnectionGate> gate(new ConnectionGate(std::move(options)));
  OUTRIDER_ASSIGN_OR_RETURN(gate->listeners_, listen_on_all(gate->options_.listen));
  gate->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  gate->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!gate->epoll_.valid() || !gate->stop_.valid()) {
    return cannot_listen(gate->options_.listen, errno_message(errno));
  }
  return gate;
}

std::uint16_t ConnectionGate::port() const {
  return port_of(listeners_.front().get());
}

void ConnectionGate::open(Hand hand) {
  hand_ = std::move(hand);
  epoll_event stop{.events = EPOLLIN, .data = {.fd = stop_.get()}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stop_.get(), &stop);
  for (const UniqueFd& listener : listeners_) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = listener.get()}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener.get(), &event);
  }
  thread_ = std::thread([this] { run(); });
}

void ConnectionGate::close() {
  if (thread_.joinable()) {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  listeners_.clear();
  watched_.clear();
}

// Connections are watched all the time, the listeners unless descriptors are short.
void ConnectionGate::watch(bool accepting) {
  for (const UniqueFd& listener : listeners_) {
    epoll_event event{.events = accepting ? EPOLLIN : 0U, .data = {.fd = listener.get()}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener.get(), &event);
  }
}

void ConnectionGate::run() {
  std::array<epoll_event, 64> events;
  bool accepting = true;
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 accepting ? -1 : kPauseMs);
    if (!accepting) watch(accepting = true);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.fd == stop_.get()) return;
      if (watched_.contains(event.data.fd)) {
        if ((event.events & EPOLLHUP) != 0) forget(event.data.fd);
      } else if (accepting && !accept_from(event.data.fd)) {
        watch(accepting = false);
      }
    }
  }
}

// Takes one that waits. False if the system is short of descriptors or memory. A connection needs
// two descriptors: that of the watch is had first, so that one too few leaves it in the queue.
bool ConnectionGate::accept_from(int listener) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  UniqueFd watched(fcntl(listener, F_DUPFD_CLOEXEC, 0));
  UniqueFd connection;
  if (watched.valid()) {
    connection = UniqueFd(
        accept4(listener, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
  const int error = errno;
  if (connection.valid()) {
    std::string host = host_in(peer);
    std::string from = endpoint(host, std::to_string(port_in(peer)));
    take(listener, std::move(connection),
         {std::move(watched), std::move(host), std::move(from), clock_.now()});
    return true;
  }
  if (!is_shortage(error)) return true;  // the peer has left again, or it was a signal
  if (options_.log) options_.log("no connection can be taken: " + errno_message(error));
  return false;
}

void ConnectionGate::vouch(const std::string& peer) {
  const MutexLock lock(mu_);
  vouched_.insert(endpoint_of(peer));
}

void ConnectionGate::note_vouched() {
  std::set<std::string> vouched;
  {
    const MutexLock lock(mu_);
    vouched.swap(vouched_);
  }
  for (const std::string& from : vouched) {
    const auto at = of_endpoint_.find(from);
    if (at != of_endpoint_.end()) watched_.at(at->second).known = true;
  }
}

// False: there is none that has been there for long enough.
bool ConnectionGate::send_stranger_away() {
  const auto rank = [](const auto& one) { return std::pair(one.second.known, one.second.since); };
  const auto first = std::ranges::min_element(watched_, {}, rank);
  if (first->second.known || clock_.now() < first->second.since + options_.stranger_time)
    return false;
  shutdown(first->first, SHUT_RDWR);  // by which gRPC lets go of it
  forget(first->first);
  refused_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool ConnectionGate::may_enter(const std::string& host) {
  const auto of_host = of_host_.find(host);
  if (options_.max_connections_per_peer > 0 && of_host != of_host_.end() &&
      of_host->second >= options_.max_connections_per_peer) {
    return false;
  }
  return options_.max_connections == 0 || watched_.size() < options_.max_connections ||
         send_stranger_away();
}

void ConnectionGate::take(int listener, UniqueFd connection, Watched peer) {
  note_vouched();
  if (!may_enter(peer.host) || dup3(connection.get(), peer.fd.get(), O_CLOEXEC) < 0) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  set_up(connection.get());
  // Only that both directions are over, which epoll tells without being asked.
  const int fd = peer.fd.get();
  epoll_event event{.events = EPOLLET, .data = {.fd = fd}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  ++of_host_[peer.host];
  of_endpoint_[peer.endpoint] = fd;
  watched_.emplace(fd, std::move(peer));
  open_.store(watched_.size(), std::memory_order_relaxed);
  hand_(listener, connection.release());
}

void ConnectionGate::forget(int watched) {
  const auto at = watched_.find(watched);
  const auto of_host = of_host_.find(at->second.host);
  if (--of_host->second == 0) of_host_.erase(of_host);
  const auto of_endpoint = of_endpoint_.find(at->second.endpoint);
  if (of_endpoint != of_endpoint_.end() && of_endpoint->second == watched) {
    of_endpoint_.erase(of_endpoint);
  }
  // Or epoll goes on telling of it under its number, until gRPC has closed its own descriptor.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched, nullptr);
  watched_.erase(at);
  open_.store(watched_.size(), std::memory_order_relaxed);
}

}  // namespace outrider
