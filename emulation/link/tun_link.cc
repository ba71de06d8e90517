// SPDX-License-Identifier: Apache-2.0
#include "emulation/link/tun_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "emulation/path/impaired_path.h"

namespace outrider {
namespace {

constexpr const char* kName = "link0";

Status failed(const char* step) {
  return unavailable(std::string("TUN device: ") + step + ": " + errno_message(errno));
}

ifreq named_request() {
  ifreq request{};
  std::strcpy(request.ifr_name, kName);
  return request;
}

Status set_address(int socket, unsigned long what, const std::string& address) {
  ifreq request = named_request();
  sockaddr_in value{};
  value.sin_family = AF_INET;
  if (inet_pton(AF_INET, address.c_str(), &value.sin_addr) != 1) {
    return invalid_argument("TUN device: '" + address + "' is no numeric IPv4 address");
  }
  std::memcpy(&request.ifr_addr, &value, sizeof value);
  return ioctl(socket, what, &request) == 0 ? Status() : failed("an address is refused");
}

Status bring_up(const TunAddresses& addresses) {
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any.valid()) return failed("no socket");
  OUTRIDER_RETURN_IF_ERROR(set_address(any.get(), SIOCSIFADDR, addresses.own));
  OUTRIDER_RETURN_IF_ERROR(set_address(any.get(), SIOCSIFDSTADDR, addresses.peer));
  ifreq request = named_request();
  request.ifr_mtu = kTunMtu;
  if (ioctl(any.get(), SIOCSIFMTU, &request) != 0) return failed("the MTU is refused");
  request = named_request();
  request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_POINTOPOINT;
  if (ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) return failed("it does not come up");
  return {};
}

}  // namespace

Result<UniqueFd> open_tun(int network_namespace, const TunAddresses& addresses) {
  OUTRIDER_ASSIGN_OR_RETURN(const InNamespace inside, InNamespace::enter(network_namespace));
  UniqueFd fd(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd.valid()) {
    return failed_precondition("/dev/net/tun cannot be opened: " + errno_message(errno) +
                               "; an emulated link needs root and the kernel's tun module");
  }
  ifreq request = named_request();
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(fd.get(), TUNSETIFF, &request) != 0) {
    return failed_precondition("a TUN device cannot be made: " + errno_message(errno) +
                               "; an emulated link needs CAP_NET_ADMIN");
  }
  OUTRIDER_RETURN_IF_ERROR(bring_up(addresses));
  return fd;
}

// The thread's own state.
class Forwarder::Loop final {
 public:
  Loop(Forwarder& link, const LinkProfile& profile, std::uint64_t seed)
      : link_(link),
        profile_(profile),
        origin_(link.start_),
        up_{link.devices_.edge.get(),
            link.devices_.server.get(),
            profile.up,
            2 * seed,
            link.up_bytes_,
            link.up_counts_},
        down_{link.devices_.server.get(), link.devices_.edge.get(), profile.down, 2 * seed + 1,
              link.down_bytes_,           link.down_counts_} {}

  void run() {
    link_.real_time_.store(make_real_time(kForwarderPriority));
    link_.started_.store(true);
    link_.started_.notify_one();
    while (wait()) {
      if (const auto request = link_.restart_.take()) begin_again(*request);
      for (Direction* direction : {&up_, &down_}) {
        take(*direction);
        deliver(*direction);
        direction->counts.publish(direction->path->counts());
      }
    }
  }

 private:
  struct Direction {
    Direction(int source, int target, const PathSettings& settings, std::uint64_t seed,
              std::atomic<std::uint64_t>& count, SharedPathCounts& published)
        : from(source),
          to(target),
          path(std::in_place, settings, seed),
          bytes(count),
          counts(published) {}

    const int from;
    const int to;
    std::optional<ImpairedPath> path;  // always set; replaced by begin_again()
    PacketHeap in_flight;
    std::atomic<std::uint64_t>& bytes;
    SharedPathCounts& counts;
  };

  Duration since_start() const { return clock_.now() - origin_; }

  // Packets in flight leave at once: their times came from the old profile.
  void begin_again(const LinkRestart::Request& request) {
    for (Direction* direction : {&up_, &down_}) {
      while (direction->in_flight.next_due()) forward(*direction);
    }
    origin_ = clock_.now() - request.offset;
    up_.path.emplace(profile_.up, 2 * request.seed);
    down_.path.emplace(profile_.down, 2 * request.seed + 1);
  }

  // False when the link is to end.
  bool wait() {
    std::optional<Duration> due = up_.in_flight.next_due();
    if (const auto other = down_.in_flight.next_due()) due = std::min(due.value_or(*other), *other);
    timespec timeout{};
    if (due) {
      const auto left = std::max<Duration::rep>((*due - since_start()).count(), 0);
      timeout = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    }
    std::array<pollfd, 3> polled = {
        {{link_.stop_.get(), POLLIN, 0}, {up_.from, POLLIN, 0}, {down_.from, POLLIN, 0}}};
    ppoll(polled.data(), polled.size(), due ? &timeout : nullptr, nullptr);
    return polled[0].revents == 0;
  }

  // Reads a bounded number at a time, so that due packets do not wait long.
  void take(Direction& direction) {
    constexpr int kMaxBatch = 32;
    for (int i = 0; i < kMaxBatch; ++i) {
      std::array<std::byte, kTunMtu> buffer;
      const ssize_t got = read(direction.from, buffer.data(), buffer.size());
      if (got <= 0) return;
      // The kernel's own messages for IPv6 are not load.
      constexpr int kIpv4 = 4;
      if (std::to_integer<int>(buffer[0] >> 4) != kIpv4) continue;
      const auto size = static_cast<std::size_t>(got);
      const Fate fate = direction.path->send(size, since_start());
      if (!fate.arrives()) continue;
      Packet packet(buffer.begin(), buffer.begin() + got);
      if (fate.copy_due) direction.in_flight.add(*fate.copy_due, packet);
      direction.in_flight.add(fate.due, std::move(packet));
    }
  }

  void deliver(Direction& direction) {
    while (true) {
      const std::optional<Duration> due = direction.in_flight.next_due();
      if (!due || *due > since_start()) return;
      if (forward(direction)) link_.lateness_.add(since_start() - *due);
    }
  }

  // If the device does not accept it, it is lost, as at any interface that is down.
  static bool forward(Direction& direction) {
    const Packet packet = direction.in_flight.take();
    if (write(direction.to, packet.data(), packet.size()) < 0) return false;
    direction.bytes.fetch_add(packet.size(), std::memory_order_relaxed);
    return true;
  }

  Forwarder& link_;
  SystemClock clock_;
  const LinkProfile profile_;
  TimePoint origin_;  // the start of the profile's time
  Direction up_;
  Direction down_;
};

Forwarder::Forwarder(Devices devices, UniqueFd stop)
    : devices_(std::move(devices)), stop_(std::move(stop)), start_(SystemClock().now()) {}

Result<std::unique_ptr<Forwarder>> Forwarder::start(Devices devices, const LinkProfile& profile,
                                                    std::uint64_t seed) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return unavailable("link: the system has no event descriptor left");
  std::unique_ptr<Forwarder> forwarder(new Forwarder(std::move(devices), std::move(stop)));
  Forwarder& shared = *forwarder;
  auto loop = std::make_shared<Loop>(shared, profile, seed);
  forwarder->thread_ = std::thread([loop = std::move(loop)] { loop->run(); });
  forwarder->started_.wait(false);
  return forwarder;
}

Forwarder::~Forwarder() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = write(stop_.get(), &one, sizeof one);
  thread_.join();
}

namespace {

// Private addresses. Other links may use the same ones, because each has its own namespaces.
constexpr const char* kEdgeAddress = "10.77.0.1";
constexpr const char* kServerAddress = "10.77.0.2";

}  // namespace

Result<std::unique_ptr<TunLink>> TunLink::start(const LinkProfile& profile, std::uint64_t seed) {
  if (profile.reset_at) {
    return invalid_argument("network '" + profile.name +
                            "': an emulated link resets no connections; a modelled one does");
  }
  OUTRIDER_ASSIGN_OR_RETURN(NetNamespace edge, NetNamespace::create());
  OUTRIDER_ASSIGN_OR_RETURN(NetNamespace server, NetNamespace::create());
  Forwarder::Devices devices;
  OUTRIDER_ASSIGN_OR_RETURN(devices.edge, open_tun(edge.fd(), {kEdgeAddress, kServerAddress}));
  OUTRIDER_ASSIGN_OR_RETURN(devices.server, open_tun(server.fd(), {kServerAddress, kEdgeAddress}));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Forwarder> forwarder,
                            Forwarder::start(std::move(devices), profile, seed));
  return std::unique_ptr<TunLink>(
      new TunLink(profile, std::move(edge), std::move(server), std::move(forwarder)));
}

NetworkSide TunLink::edge_side() const {
  return {kEdgeAddress, edge_.fd()};
}

NetworkSide TunLink::server_side() const {
  return {kServerAddress, server_.fd()};
}

}  // namespace outrider
