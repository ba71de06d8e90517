// SPDX-License-Identifier: Apache-2.0
#include "bench/link/delay_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <list>
#include <optional>
#include <vector>

#include "bench/link/delayed_pipe.h"

namespace outrider {
namespace {

Result<sockaddr_in> ipv4(const Address& address) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(address.port);
  if (inet_pton(AF_INET, address.host.c_str(), &out.sin_addr) != 1) {
    return invalid_argument("link to '" + address.host + "': expected a numeric IPv4 address");
  }
  return out;
}

void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Result<UniqueFd> listen_on_loopback(Address& address) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  if (!fd.valid() || bind(fd.get(), reinterpret_cast<sockaddr*>(&own), size) != 0 ||
      listen(fd.get(), SOMAXCONN) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    return unavailable(std::string("link: cannot listen: ") + std::strerror(errno));
  }
  address = {"127.0.0.1", ntohs(own.sin_port)};
  return fd;
}

}  // namespace

// The thread's own state.
class DelayLink::Loop final {
 public:
  explicit Loop(DelayLink& link) : link_(link) {}

  void run() {
    prctl(PR_SET_TIMERSLACK, 1UL);  // the default would add 50 us to each delay
    while (wait()) {
      const TimePoint now = clock_.now();
      const Duration delay(link_.one_way_ns_.load());
      for (Connection& connection : connections_) {
        for (DelayedPipe* pipe : {&connection.up, &connection.down}) {
          pipe->take(now, delay);
          pipe->deliver(clock_.now());
        }
      }
      connections_.remove_if([](const Connection& one) { return one.over(); });
      accept_all();
    }
  }

 private:
  struct Connection {
    Connection(UniqueFd near, UniqueFd far, DelayLink& link)
        : edge(std::move(near)),
          server(std::move(far)),
          up(edge.get(), server.get(), kMaxInFlight, link.up_),
          down(server.get(), edge.get(), kMaxInFlight, link.down_) {}

    bool over() const { return up.broken() || down.broken() || (up.finished() && down.finished()); }

    UniqueFd edge;
    UniqueFd server;
    DelayedPipe up;
    DelayedPipe down;
  };

  // False when the link is to end.
  bool wait() {
    polled_ = {{link_.stop_.get(), POLLIN, 0}, {link_.listener_.get(), POLLIN, 0}};
    std::optional<TimePoint> due;
    for (const Connection& connection : connections_) {
      for (const DelayedPipe* pipe : {&connection.up, &connection.down}) {
        if (pipe->wants_to_read()) polled_.push_back({pipe->from(), POLLIN, 0});
        if (pipe->wants_to_write()) polled_.push_back({pipe->to(), POLLOUT, 0});
        if (const auto next = pipe->next_due()) due = std::min(due.value_or(*next), *next);
      }
    }
    timespec timeout{};
    if (due) {
      const auto left = std::max<Duration::rep>((*due - clock_.now()).count(), 0);
      timeout = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    }
    ppoll(polled_.data(), polled_.size(), due ? &timeout : nullptr, nullptr);
    return (polled_.front().revents & POLLIN) == 0;
  }

  void accept_all() {
    while (true) {
      UniqueFd edge(accept4(link_.listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!edge.valid()) return;
      const Result<sockaddr_in> to = ipv4(link_.upstream_);
      UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      // Blocks, but only as long as a loopback's handshake.
      if (!to.ok() || !server.valid() ||
          connect(server.get(), reinterpret_cast<const sockaddr*>(&*to), sizeof *to) != 0) {
        continue;  // the edge sees its connection closed
      }
      fcntl(server.get(), F_SETFL, O_NONBLOCK);
      set_no_delay(edge.get());
      set_no_delay(server.get());
      connections_.emplace_back(std::move(edge), std::move(server), link_);
    }
  }

  DelayLink& link_;
  SystemClock clock_;
  std::list<Connection> connections_;  // pipes do not move
  std::vector<pollfd> polled_;
};

DelayLink::DelayLink(const DelayLinkOptions& options)
    : upstream_(options.upstream), one_way_ns_(options.one_way.count()) {}

Result<std::unique_ptr<DelayLink>> DelayLink::start(const DelayLinkOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(ipv4(options.upstream).status());
  if (options.one_way < Duration::zero()) return invalid_argument("link: the delay is negative");
  std::unique_ptr<DelayLink> link(new DelayLink(options));
  OUTRIDER_ASSIGN_OR_RETURN(link->listener_, listen_on_loopback(link->address_));
  link->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!link->stop_.valid()) return unavailable("link: no event descriptor to be had");
  link->thread_ = std::thread([&shared = *link] { Loop(shared).run(); });
  return link;
}

DelayLink::~DelayLink() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace outrider
