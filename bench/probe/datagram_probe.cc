// SPDX-License-Identifier: Apache-2.0
#include "bench/probe/datagram_probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "bench/probe/probe_socket.h"
#include "emulation/link/tun_link.h"

namespace outrider {

Result<std::unique_ptr<DatagramEcho>> DatagramEcho::start(const NetworkSide& side) {
  OUTRIDER_ASSIGN_OR_RETURN(UniqueFd socket, udp_socket(side));
  OUTRIDER_ASSIGN_OR_RETURN(Address address, local_address(socket.get()));
  std::unique_ptr<DatagramEcho> echo(new DatagramEcho(std::move(socket), std::move(address)));
  echo->thread_ = std::thread([&shared = *echo] { shared.run(); });
  return echo;
}

void DatagramEcho::run() const {
  constexpr Duration kLook = std::chrono::milliseconds(50);  // for the end of the flood
  make_real_time(kProbePriority);
  std::array<char, 2048> datagram;
  while (!stop_.load()) {
    wait_readable(socket_.get(), SystemClock().now() + kLook);
    sockaddr_in from{};
    socklen_t size = sizeof from;
    ssize_t got = 0;
    while ((got = recvfrom(socket_.get(), datagram.data(), datagram.size(), 0,
                           reinterpret_cast<sockaddr*>(&from), &size)) >= 0) {
      sendto(socket_.get(), datagram.data(), static_cast<std::size_t>(got), 0,
             reinterpret_cast<const sockaddr*>(&from), size);
      size = sizeof from;
    }
  }
}

DatagramEcho::~DatagramEcho() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLastAnswers = seconds(3);
constexpr std::size_t kFloodPayload = kTunMtu - kDatagramHeaders;

// The sending end of the round trips, on its own thread.
class RoundTripProbe final {
 public:
  RoundTripProbe(int socket, TimePoint start, std::span<const Duration> times)
      : socket_(socket), start_(start), planned_(times) {}

  RoundTrips run() {
    make_real_time(kProbePriority);
    for (const Duration at : planned_) {
      read_until(start_ + at);
      send_next();
    }
    const TimePoint last = clock_.now() + kLastAnswers;
    while (clock_.now() < last && came_back_ < planned_.size()) {
      read_until(std::min(last, clock_.now() + milliseconds(10)));
    }
    return std::move(result_);
  }

 private:
  void send_next() {
    std::array<char, kProbeBytes - kDatagramHeaders> datagram{};
    const auto number = static_cast<std::uint32_t>(result_.times.size());
    std::memcpy(datagram.data(), &number, sizeof number);
    result_.times.push_back(clock_.now() - start_);
    result_.ms.emplace_back();
    send(socket_, datagram.data(), datagram.size(), 0);
  }

  void read_until(TimePoint until) {
    do {
      wait_readable(socket_, until);
      std::uint32_t number = 0;
      while (recv(socket_, &number, sizeof number, 0) == sizeof number) {
        // Duplicates do not count.
        if (number >= result_.times.size() || result_.ms[number]) continue;
        ++came_back_;
        result_.ms[number] = to_ms(clock_.now() - start_ - result_.times[number]);
      }
    } while (clock_.now() < until);
  }

  const int socket_;
  const TimePoint start_;
  const std::span<const Duration> planned_;
  SystemClock clock_;
  RoundTrips result_;
  std::size_t came_back_ = 0;
};

// Sends packets evenly; returns how many.
std::size_t send_flood(int socket, TimePoint begin, const Flood& flood) {
  make_real_time(kProbePriority);
  SystemClock clock;
  const std::vector<char> payload(kFloodPayload);
  const double per_s = flood.bit_per_s / 8 / kTunMtu;
  std::size_t sent = 0;
  clock.sleep_until(begin);
  while (clock.now() < begin + flood.length) {
    const auto due = static_cast<std::size_t>(to_seconds(clock.now() - begin) * per_s) + 1;
    for (; sent < due; ++sent) send(socket, payload.data(), payload.size(), 0);
    clock.sleep_until(clock.now() + milliseconds(1));
  }
  return sent;
}

void receive_flood(int socket, TimePoint start, TimePoint end, FloodResult& result) {
  make_real_time(kProbePriority);
  const SystemClock clock;
  std::array<char, 2048> datagram;
  while (clock.now() < end) {
    wait_readable(socket, end);
    ssize_t got = 0;
    while ((got = recv(socket, datagram.data(), datagram.size(), 0)) >= 0) {
      result.arrivals.emplace_back(clock.now() - start,
                                   static_cast<std::size_t>(got) + kDatagramHeaders);
    }
  }
}

}  // namespace

Result<RoundTrips> probe_round_trips(const Link& link, TimePoint start,
                                     std::span<const Duration> times) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<DatagramEcho> echo,
                            DatagramEcho::start(link.server_side()));
  OUTRIDER_ASSIGN_OR_RETURN(const UniqueFd socket, udp_socket(link.edge_side()));
  OUTRIDER_RETURN_IF_ERROR(connect_to(socket.get(), echo->address()));
  RoundTrips result;
  std::thread([&] { result = RoundTripProbe(socket.get(), start, times).run(); }).join();
  return result;
}

double FloodResult::bytes_between(Duration from, Duration to) const {
  double bytes = 0;
  for (const auto& [at, size] : arrivals) {
    if (at >= from && at < to) bytes += static_cast<double>(size);
  }
  return bytes;
}

Result<FloodResult> flood_link(const NetworkSide& from, const NetworkSide& to, TimePoint start,
                               const Flood& flood, Duration drain) {
  OUTRIDER_ASSIGN_OR_RETURN(const UniqueFd sink, udp_socket(to));
  OUTRIDER_ASSIGN_OR_RETURN(const Address target, local_address(sink.get()));
  OUTRIDER_ASSIGN_OR_RETURN(const UniqueFd source, udp_socket(from));
  OUTRIDER_RETURN_IF_ERROR(connect_to(source.get(), target));
  const TimePoint begin = start + flood.from;
  FloodResult result;
  std::thread receiver(
      [&] { receive_flood(sink.get(), start, begin + flood.length + drain, result); });
  std::thread([&] { result.sent = send_flood(source.get(), begin, flood); }).join();
  receiver.join();
  return result;
}

}  // namespace outrider
