// SPDX-License-Identifier: Apache-2.0
#include "bench/link/tun/forwarder.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <optional>
#include <utility>

#include "bench/link/path/impaired_path.h"
#include "bench/link/tun/packet_heap.h"
#include "bench/link/tun/real_time_thread.h"
#include "bench/link/tun/tun_device.h"

namespace outrider {

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
    std::optional<ImpairedPath> path;  // always there; made anew by begin_again()
    PacketHeap in_flight;
    std::atomic<std::uint64_t>& bytes;
    SharedPathCounts& counts;
  };

  Duration since_start() const { return clock_.now() - origin_; }

  // What is under way goes at once: its times were the old profile's.
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

  // A bounded number at a time, so that what is due meanwhile does not wait long.
  void take(Direction& direction) {
    constexpr int kMaxBatch = 32;
    for (int i = 0; i < kMaxBatch; ++i) {
      std::array<std::byte, kTunMtu> buffer;
      const ssize_t got = read(direction.from, buffer.data(), buffer.size());
      if (got <= 0) return;
      // The kernel's own messages for IPv6 are no load of ours.
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

  // Where the device does not take it, it is lost, as at any interface that is down.
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
  if (!stop.valid()) return unavailable("link: no event descriptor to be had");
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

}  // namespace outrider
