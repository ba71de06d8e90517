// SPDX-License-Identifier: Apache-2.0
#include "emulation/link/proxy_link.h"

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
#include <ctime>
#include <list>
#include <utility>

namespace outrider {

void StreamPipe::take() {
  std::array<char, 65536> some;
  room_at_.reset();
  while (wants_to_read()) {
    if (!stream_.has_room(clock_.now())) {
      room_at_ = stream_.room_at();
      return;
    }
    const std::size_t most = std::min(some.size(), stream_.largest_piece());
    const ssize_t got = recv(from_, some.data(), most, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0) broken_ = true;
    if (got < 0) return;
    // Read after the bytes arrived, so that none is early however long this thread had to wait.
    const Duration now = clock_.now();
    if (got == 0) {
      ended_ = true;
      end_due_ = stream_.send_end(now);
      return;
    }
    const std::optional<Duration> due = stream_.send(static_cast<std::size_t>(got), now);
    if (!due) continue;  // these bytes never arrive
    in_flight_ += static_cast<std::size_t>(got);
    if (std::exchange(garbles_, false)) some[static_cast<std::size_t>(got) - 1] ^= 1;
    chunks_.push_back({*due, {some.data(), some.data() + got}});
  }
}

// False if the socket takes no more for now.
bool StreamPipe::write_front() {
  Chunk& chunk = chunks_.front();
  while (chunk.written < chunk.bytes.size()) {
    const ssize_t put = send(to_, chunk.bytes.data() + chunk.written,
                             chunk.bytes.size() - chunk.written, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
      broken_ = !blocked_;
      return false;
    }
    chunk.written += static_cast<std::size_t>(put);
    in_flight_ -= static_cast<std::size_t>(put);
    count_.fetch_add(static_cast<std::uint64_t>(put), std::memory_order_relaxed);
  }
  chunks_.pop_front();
  return true;
}

void StreamPipe::deliver() {
  const Duration now = clock_.now();
  blocked_ = false;
  if (held_) return;
  while (!chunks_.empty() && chunks_.front().due <= now) {
    if (!write_front()) return;
  }
  if (end_due_ && !finished_ && chunks_.empty() && *end_due_ <= now) {
    shutdown(to_, SHUT_WR);
    finished_ = true;
  }
}

std::optional<Duration> StreamPipe::next_due() const {
  if (broken_ || held_) return std::nullopt;
  std::optional<Duration> next = room_at_;
  const auto earlier = [&next](Duration due) { next = std::min(next.value_or(due), due); };
  if (!blocked_ && !chunks_.empty()) earlier(chunks_.front().due);
  if (!blocked_ && chunks_.empty() && end_due_ && !finished_) earlier(*end_due_);
  return next;
}

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

// Otherwise the kernel would take megabytes from the sender before the link's queue fills.
void bound_buffer(int fd) {
  const int bytes = 64 << 10;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

// Closing the socket then sends RST.
void reset_at_close(int fd) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

// Binds to a port of its own, or to the address's port if that has one.
Result<UniqueFd> listen_on_loopback(Address& address) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(address.port);
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
      obey();
      for (Connection& connection : connections_) {
        for (StreamPipe* pipe : {&connection.up, &connection.down}) {
          pipe->take();
          pipe->deliver();
        }
      }
      publish();
      if (reset_is_due()) {
        was_reset_ = true;
        reset_all();
      }
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
    was_reset_ = false;
    link_.resets_.store(0);
    publish();
  }

  void publish() {
    link_.up_counts_.publish(up_->counts());
    link_.down_counts_.publish(down_->counts());
  }

  // Performs the requests that came since the last call.
  void obey() {
    Asked asked;
    {
      const MutexLock lock(link_.mu_);
      asked = std::exchange(link_.asked_, {});
    }
    if (asked.faults) faults_ = *asked.faults;
    if (asked.resets) {
      link_.listener_.reset();
      reset_all();
    }
    if (!faults_.refuses && !link_.listener_.valid()) {
      Address same = link_.address_;
      if (auto listener = listen_on_loopback(same); listener.ok()) {
        link_.listener_ = *std::move(listener);
      }
    }
    if (asked.profile) {
      up_.emplace(asked.profile->up, 2 * link_.seed_);
      down_.emplace(asked.profile->down, 2 * link_.seed_ + 1);
    }
    for (Connection& connection : connections_) {
      connection.up.hold(faults_.holds_up);
      connection.down.hold(faults_.holds_down);
      if (asked.garbles) connection.down.garble();
    }
  }

  bool reset_is_due() const {
    return link_.profile_.reset_at && !was_reset_ && time_.now() >= *link_.profile_.reset_at;
  }

  void reset_all() {
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
    // While a link carries nothing, new connections wait in the kernel's queue.
    polled_ = {{link_.wake_.get(), POLLIN, 0},
               {faults_.holds_up ? -1 : link_.listener_.get(), POLLIN, 0}};
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
    std::uint64_t woken = 0;
    [[maybe_unused]] const ssize_t got = read(link_.wake_.get(), &woken, sizeof woken);
    return !link_.stopping_.load();
  }

  void accept_all() {
    while (!faults_.holds_up) {
      UniqueFd edge(accept4(link_.listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!edge.valid()) return;
      // A connection made after a restart was requested belongs to the time after the restart.
      if (const auto request = link_.restart_.take()) begin_again(*request);
      const Result<sockaddr_in> to = ipv4(faults_.server.value_or(link_.upstream_));
      UniqueFd server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (server.valid() && link_.profile_.down.has_rate()) bound_buffer(server.get());
      if (!faults_.source.empty()) {
        const Result<sockaddr_in> from = ipv4({faults_.source, 0});
        if (!from.ok() ||
            bind(server.get(), reinterpret_cast<const sockaddr*>(&*from), sizeof *from) != 0) {
          continue;
        }
      }
      // Blocks, but only for a handshake over loopback.
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
  std::optional<ImpairedPath> up_;  // always set; replaced by begin_again()
  std::optional<ImpairedPath> down_;
  bool was_reset_ = false;
  LinkFaults faults_;
  std::list<Connection> connections_;  // a list, so that pipes do not move
  std::vector<pollfd> polled_;
};

ProxyLink::ProxyLink(LinkProfile profile, std::uint64_t seed)
    : profile_(std::move(profile)), seed_(seed) {}

Result<Address> ProxyLink::route(const Address& server) {
  OUTRIDER_CHECK(!thread_.joinable());
  OUTRIDER_RETURN_IF_ERROR(ipv4(server).status());
  upstream_ = server;
  OUTRIDER_ASSIGN_OR_RETURN(listener_, listen_on_loopback(address_));
  if (profile_.up.has_rate()) bound_buffer(listener_.get());  // accepted sockets inherit it
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return unavailable("link: the system has no event descriptor left");
  thread_ = std::thread([this] { Loop(*this).run(); });
  return address_;
}

ProxyLink::~ProxyLink() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  wake();
  thread_.join();
}

void ProxyLink::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(wake_.get(), &one, sizeof one);
}

void ProxyLink::impose(const LinkFaults& faults) {
  {
    const MutexLock lock(mu_);
    asked_.faults = faults;
    asked_.resets = asked_.resets || faults.refuses;
  }
  wake();
}

void ProxyLink::become(const LinkProfile& profile) {
  {
    const MutexLock lock(mu_);
    asked_.profile = profile;
  }
  wake();
}

void ProxyLink::garble() {
  {
    const MutexLock lock(mu_);
    asked_.garbles = true;
  }
  wake();
}

}  // namespace outrider
