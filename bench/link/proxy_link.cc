// SPDX-License-Identifier: Apache-2.0
#include "bench/link/proxy_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include "bench/link/stream_pipe.h"
#include "common/base/posix.h"

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

// The kernel would take megabytes from the sender before the link's queue fills.
void bound_buffer(int fd) {
  const int bytes = 64 << 10;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

// Closing the socket then sends RST.
void reset_at_close(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
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
    return unavailable("link: cannot listen: " + errno_message(errno));
  }
  address = {"127.0.0.1", ntohs(own.sin_port)};
  return fd;
}

}  // namespace

// The thread's own state.
class ProxyLink::Loop final {
 public:
  explicit Loop(ProxyLink& link)
      : link_(link),
        time_{clock_, clock_.now()},
        up_(std::in_place, link.profile_.up, 2 * link.seed_),
        down_(std::in_place, link.profile_.down, 2 * link.seed_ + 1) {}

  void run() {
    prctl(PR_SET_TIMERSLACK, 1UL);  // the default would add 50 us to each delay
    while (wait()) {
      if (const auto request = link_.restart_.take()) begin_again(*request);
      change_delay();
      for (Connection& connection : connections_) {
        for (StreamPipe* pipe : {&connection.up, &connection.down}) {
          pipe->take();
          pipe->deliver();
        }
      }
      link_.up_counts_.publish(up_->counts());
      link_.down_counts_.publish(down_->counts());
      if (reset_is_due()) reset_all();
      connections_.remove_if([](const Connection& one) { return one.over(); });
      accept_all();
    }
  }

 private:
  struct Connection {
    Connection(UniqueFd near, UniqueFd far, Loop& loop)
        : edge(std::move(near)),
          server(std::move(far)),
          up(edge.get(), server.get(), kMaxInFlight, {*loop.up_, loop.round_trip()}, loop.time_,
             loop.link_.up_),
          down(server.get(), edge.get(), kMaxInFlight, {*loop.down_, loop.round_trip()}, loop.time_,
               loop.link_.down_) {}

    bool over() const { return up.broken() || down.broken() || (up.finished() && down.finished()); }

    UniqueFd edge;
    UniqueFd server;
    StreamPipe up;
    StreamPipe down;
  };

  Duration round_trip() const { return up_->settings().delay + down_->settings().delay; }

  void begin_again(const LinkRestart::Request& request) {
    connections_.clear();
    time_.start = clock_.now() - request.offset;
    up_.emplace(link_.profile_.up, 2 * request.seed);
    down_.emplace(link_.profile_.down, 2 * request.seed + 1);
    one_way_ = Duration{-1};
    was_reset_ = false;
    link_.resets_.store(0);
  }

  void change_delay() {
    const Duration asked(link_.one_way_ns_.load());
    if (asked < Duration::zero() || asked == one_way_) return;
    one_way_ = asked;
    up_->set_delay(asked);
    down_->set_delay(asked);
  }

  bool reset_is_due() const {
    return link_.profile_.reset_at && !was_reset_ && time_.now() >= *link_.profile_.reset_at;
  }

  void reset_all() {
    was_reset_ = true;
    link_.resets_.fetch_add(connections_.size());
    for (const Connection& connection : connections_) {
      reset_at_close(connection.edge.get());
      reset_at_close(connection.server.get());
    }
    connections_.clear();
  }

  std::optional<Duration> next_due() const {
    std::optional<Duration> due;
    if (link_.profile_.reset_at && !was_reset_) due = link_.profile_.reset_at;
    for (const Connection& connection : connections_) {
      for (const StreamPipe* pipe : {&connection.up, &connection.down}) {
        if (const auto next = pipe->next_due()) due = std::min(due.value_or(*next), *next);
      }
    }
    return due;
  }

  // False when the link is to end.
  bool wait() {
    polled_ = {{link_.stop_.get(), POLLIN, 0}, {link_.listener_.get(), POLLIN, 0}};
    for (const Connection& connection : connections_) {
      for (const StreamPipe* pipe : {&connection.up, &connection.down}) {
        if (pipe->wants_to_read()) polled_.push_back({pipe->from(), POLLIN, 0});
        if (pipe->wants_to_write()) polled_.push_back({pipe->to(), POLLOUT, 0});
      }
    }
    const std::optional<Duration> due = next_due();
    timespec timeout{};
    if (due) {
      const auto left = std::max<Duration::rep>((*due - time_.now()).count(), 0);
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
      if (server.valid() && link_.profile_.down.has_rate()) bound_buffer(server.get());
      // Blocks, but only as long as a loopback's handshake.
      if (!to.ok() || !server.valid() ||
          connect(server.get(), reinterpret_cast<const sockaddr*>(&*to), sizeof *to) != 0) {
        continue;  // the edge sees its connection closed
      }
      fcntl(server.get(), F_SETFL, O_NONBLOCK);
      set_no_delay(edge.get());
      set_no_delay(server.get());
      connections_.emplace_back(std::move(edge), std::move(server), *this);
    }
  }

  ProxyLink& link_;
  SystemClock clock_;
  LinkClock time_;
  std::optional<ImpairedPath> up_;  // always there; made anew by begin_again()
  std::optional<ImpairedPath> down_;
  Duration one_way_{-1};
  bool was_reset_ = false;
  std::list<Connection> connections_;  // pipes do not move
  std::vector<pollfd> polled_;
};

ProxyLink::ProxyLink(LinkProfile profile, std::uint64_t seed)
    : profile_(std::move(profile)), seed_(seed) {}

Result<Address> ProxyLink::route(const Address& server) {
  OUTRIDER_CHECK(!thread_.joinable());
  OUTRIDER_RETURN_IF_ERROR(ipv4(server).status());
  upstream_ = server;
  OUTRIDER_ASSIGN_OR_RETURN(listener_, listen_on_loopback(address_));
  if (profile_.up.has_rate()) bound_buffer(listener_.get());  // what it accepts takes that over
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!stop_.valid()) return unavailable("link: no event descriptor to be had");
  thread_ = std::thread([this] { Loop(*this).run(); });
  return address_;
}

ProxyLink::~ProxyLink() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

}  // namespace outrider
