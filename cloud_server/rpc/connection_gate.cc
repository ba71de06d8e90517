// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>  // newer than libc's: it has tcpi_bytes_received
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "cloud_server/rpc/caller.h"
#include "common/serving/http/listener.h"
#include "proto/byte_buffer.h"

namespace outrider {
namespace {

// How long a gate without descriptors waits for some.
constexpr int kPauseMs = 100;
// How often silent connections are checked for the timeout.
constexpr int kLookMs = 100;

// The address without port; an IPv4 address in IPv6 form is written as IPv4.
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

// host and port as text.
std::string endpoint(const std::string& host, const std::string& port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + port;
}

std::uint16_t port_in(const sockaddr_storage& peer) {
  return ntohs(peer.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(peer).sin_port
                                         : reinterpret_cast<const sockaddr_in6&>(peer).sin6_port);
}

// peer is written as gRPC writes it.
std::string endpoint_of(const std::string& peer) {
  return endpoint(host_of(peer), peer.substr(peer.rfind(':') + 1));
}

// The options that gRPC sets on connections it accepts itself: send at once, and drop a peer that
// does not acknowledge within the time for a ping's answer.
void set_up(int connection) {
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto patience = static_cast<unsigned>(kKeepaliveTimeout.count());
  setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

// How a peer's first bytes must begin; gRPC checks the rest of HTTP/2's preface.
constexpr std::string_view kTlsGreeting = "\x16\x03";
constexpr std::string_view kHttp2Greeting = "PRI";

// Nothing: the bytes may still become the preface. first: at least one byte.
std::optional<Status> check_greeting(std::string_view first, bool tls) {
  const std::string_view wanted = tls ? kTlsGreeting : kHttp2Greeting;
  if (first.starts_with(wanted)) return Status();
  if (wanted.starts_with(first)) return std::nullopt;
  if (tls)
    return invalid_argument("the connection does not begin with TLS, which this port requires");
  if (kTlsGreeting.starts_with(first.substr(0, 2))) {
    return invalid_argument("the connection begins with TLS; this port has none (--tls-cert)");
  }
  return invalid_argument("the connection does not begin with HTTP/2, which gRPC speaks");
}

// Bytes that the peer has sent so far; 0 if the system does not report them.
std::uint64_t bytes_received(int connection) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(connection, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_received;
}

// Errors that are not caused by the waiting connection: it stays in the queue.
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
  passing_thread_ = std::thread([this] { pass_to_grpc(); });
}

// The passing thread ends first: the gate's thread may have to reset a connection that it reads.
void ConnectionGate::close() {
  if (thread_.joinable()) {
    {
      const MutexLock lock(mu_);
      closing_ = true;
    }
    changed_.notify_one();
    passing_thread_.join();
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  listeners_.clear();
  watched_.clear();
  const MutexLock lock(mu_);
  greeted_.clear();
}

// Watches connections always, and the listeners unless descriptors are short.
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
    const int pause = !accepting ? kPauseMs : waiting_ > 0 ? kLookMs : -1;
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), pause);
    if (!accepting) watch(accepting = true);
    const std::span<const epoll_event> told(events.data(),
                                            static_cast<std::size_t>(count > 0 ? count : 0));
    for (const epoll_event& event : told) {
      if (event.data.fd == stop_.get()) return;
      on_peer(event.data.fd, event.events);
    }
    // Accept last: a new connection may get the number of one that was just closed.
    for (const epoll_event& event : told) {
      const bool comes_in = std::ranges::any_of(
          listeners_, [&](const UniqueFd& one) { return one.get() == event.data.fd; });
      if (comes_in && accepting && !accept_from(event.data.fd)) watch(accepting = false);
    }
    if (waiting_ > 0) close_silent();
  }
}

void ConnectionGate::on_peer(int watched, std::uint32_t events) {
  note_authenticated();
  const auto at = watched_.find(watched);
  if (at == watched_.end()) return;
  if ((events & EPOLLHUP) != 0) return forget(watched);
  if (at->second.connection.valid()) return greet(watched);
  if (!at->second.known) count_sent(watched);
}

// Accepts a waiting connection. False if the system is short of descriptors or memory. A connection
// needs two descriptors; the watch's is taken first, so that a shortage leaves the connection in
// the queue.
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
    const std::string host = host_in(peer);
    take({.fd = std::move(watched),
          .connection = std::move(connection),
          .listener = listener,
          .network = network_of(host),
          .endpoint = endpoint(host, std::to_string(port_in(peer))),
          .since = clock_.now()});
    return true;
  }
  if (!is_shortage(error)) return true;  // the peer has disconnected, or a signal came
  if (options_.log) options_.log("no connection can be taken: " + errno_message(error));
  return false;
}

void ConnectionGate::mark_authenticated(const std::string& peer) {
  const MutexLock lock(mu_);
  authenticated_.insert(endpoint_of(peer));
}

// From now on epoll reports only the end of both directions for them.
void ConnectionGate::note_authenticated() {
  std::set<std::string> authenticated;
  {
    const MutexLock lock(mu_);
    authenticated.swap(authenticated_);
  }
  for (const std::string& from : authenticated) {
    const auto at = of_endpoint_.find(from);
    if (at == of_endpoint_.end()) continue;
    Watched& peer = watched_.at(at->second);
    peer.known = true;
    sent_ -= std::exchange(peer.sent, 0);
    epoll_event quiet{.events = EPOLLET, .data = {.fd = at->second}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, at->second, &quiet);
  }
}

// False: none is old enough.
bool ConnectionGate::evict_unauthenticated() {
  const auto rank = [](const auto& one) { return std::pair(one.second.known, one.second.since); };
  const auto first = std::ranges::min_element(watched_, {}, rank);
  if (first->second.known || clock_.now() < first->second.since + options_.unauthenticated_grace)
    return false;
  refuse(first->first);
  return true;
}

bool ConnectionGate::may_enter(const std::string& network) {
  const auto of_network = of_network_.find(network);
  if (options_.max_connections_per_peer > 0 && of_network != of_network_.end() &&
      of_network->second >= options_.max_connections_per_peer) {
    return false;
  }
  return options_.max_connections == 0 || watched_.size() < options_.max_connections ||
         evict_unauthenticated();
}

void ConnectionGate::take(Watched peer) {
  note_authenticated();
  if (!may_enter(peer.network) || dup3(peer.connection.get(), peer.fd.get(), O_CLOEXEC) < 0) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  set_up(peer.connection.get());
  const int fd = peer.fd.get();
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.fd = fd}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  ++waiting_;
  ++of_network_[peer.network];
  of_endpoint_[peer.endpoint] = fd;
  watched_.emplace(fd, std::move(peer));
  open_.store(watched_.size(), std::memory_order_relaxed);
}

void ConnectionGate::pass_to_grpc() {
  MutexLock lock(mu_);
  while (true) {
    while (greeted_.empty() && !closing_) changed_.wait(mu_);
    if (closing_) return;
    Greeted next = std::move(greeted_.front());
    greeted_.pop_front();
    lock.unlock();
    hand_(next.listener, next.connection.release());
    lock.lock();
  }
}

// Reads the first bytes of a connection without consuming them: gRPC reads them again.
void ConnectionGate::greet(int watched) {
  Watched& peer = watched_.at(watched);
  std::array<char, kHttp2Greeting.size()> first;
  const ssize_t got = recv(watched, first.data(), first.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return forget(watched);  // it only checked whether the port is open
  if (got < 0) return;                   // EPOLLHUP reports the end
  const std::optional<Status> greeting =
      check_greeting({first.data(), static_cast<std::size_t>(got)}, options_.tls);
  if (!greeting) return;
  if (!greeting->ok()) {
    if (options_.on_foreign) options_.on_foreign(peer.endpoint, *greeting);
    return forget(watched);
  }
  --waiting_;
  {
    const MutexLock lock(mu_);
    greeted_.push_back({peer.listener, std::move(peer.connection)});
  }
  changed_.notify_one();
  count_sent(watched);
}

// An unauthenticated connection has sent more.
void ConnectionGate::count_sent(int watched) {
  if (options_.max_unauthenticated_bytes == 0) return;
  const std::uint64_t received = bytes_received(watched);
  note_authenticated();  // after bytes_received(): a peer authenticated before it sent these bytes
                         // may send them
  Watched& peer = watched_.at(watched);
  if (peer.known) return;
  const std::uint64_t before = std::exchange(peer.sent, received);
  sent_ += peer.sent - before;
  if (peer.sent > options_.max_unauthenticated_bytes) return refuse(watched);
  if (sent_ <= options_.max_unauthenticated_bytes_total) return;
  const auto rank = [](const auto& one) { return one.second.sent; };
  refuse(std::ranges::max_element(watched_, {}, rank)->first);
}

void ConnectionGate::close_silent() {
  std::vector<int> silent;
  const TimePoint latest = clock_.now() - options_.handshake_timeout;
  for (const auto& [fd, peer] : watched_) {
    if (peer.connection.valid() && peer.since <= latest) silent.push_back(fd);
  }
  for (const int fd : silent) refuse(fd);
}

// Closes it for a bound: a reset, so that gRPC closes it and the system frees what it has sent.
void ConnectionGate::refuse(int watched) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  const sockaddr nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (connect(watched, &nobody, sizeof nobody) != 0) shutdown(watched, SHUT_RDWR);
  forget(watched);
}

void ConnectionGate::forget(int watched) {
  const auto at = watched_.find(watched);
  if (at->second.connection.valid()) --waiting_;
  sent_ -= at->second.sent;
  const auto of_network = of_network_.find(at->second.network);
  if (--of_network->second == 0) of_network_.erase(of_network);
  const auto of_endpoint = of_endpoint_.find(at->second.endpoint);
  if (of_endpoint != of_endpoint_.end() && of_endpoint->second == watched) {
    of_endpoint_.erase(of_endpoint);
  }
  // Otherwise epoll reports it under its number until gRPC has closed its own descriptor.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watched, nullptr);
  watched_.erase(at);
  open_.store(watched_.size(), std::memory_order_relaxed);
}

}  // namespace outrider
