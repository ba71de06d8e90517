// SPDX-License-Identifier: Apache-2.0
#include "bench/probe/tcp_probe.h"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "bench/probe/probe_socket.h"
#include "bench/stats/statistics.h"
#include "common/base/posix.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

// The first byte of a connection selects what its far end does.
constexpr char kEcho = 'e';    // returns what it receives
constexpr char kSink = 's';    // reads, and reports the rate at the end
constexpr char kSource = 'f';  // sends until the connection ends

Status carries_nothing() {
  return unavailable("link probe: nothing comes over the link: " + errno_message(errno));
}

// Reads for this long; returns Mbit/s without the first quarter.
double read_bulk(int socket, Duration length) {
  const SystemClock clock;
  const TimePoint begin = clock.now(), counted = begin + length / 4, end = begin + length;
  std::array<char, 65536> some;
  double bytes = 0;
  TimePoint now = begin;
  while (now < end) {
    wait_readable(socket, end);
    const ssize_t got = recv(socket, some.data(), some.size(), MSG_DONTWAIT);
    now = clock.now();
    if (got == 0) break;
    if (got > 0 && now >= counted) bytes += static_cast<double>(got);
  }
  return bytes * 8e-6 / to_seconds(end - counted);
}

void send_bulk(int socket, TimePoint end) {
  const std::array<char, 65536> some{};
  const SystemClock clock;
  while (clock.now() < end) {
    if (send(socket, some.data(), some.size(), MSG_NOSIGNAL) <= 0) return;
  }
}

// The far end: serves one connection after the other.
class FarEnd final {
 public:
  FarEnd(UniqueFd listener, Duration bulk)
      : listener_(std::move(listener)), bulk_(bulk), thread_([this] { run(); }) {}
  ~FarEnd() {
    stop_.store(true);
    thread_.join();
  }
  FarEnd(const FarEnd&) = delete;
  FarEnd& operator=(const FarEnd&) = delete;

 private:
  void run() const {
    while (!stop_.load()) {
      wait_readable(listener_.get(), SystemClock().now() + milliseconds(50));
      const UniqueFd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (connection.valid()) serve(connection.get());
    }
  }

  bool readable(int socket) const {
    while (!stop_.load()) {
      char byte = 0;
      wait_readable(socket, SystemClock().now() + milliseconds(50));
      const ssize_t got = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (got > 0) return true;
      if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
    }
    return false;
  }

  void serve(int socket) const {
    char job = 0;
    if (!readable(socket) || recv(socket, &job, 1, 0) != 1) return;
    if (job == kSink) {
      const double mbit_s = read_bulk(socket, bulk_);
      send(socket, &mbit_s, sizeof mbit_s, MSG_NOSIGNAL);
      // The rest is read, so that closing does not reset the connection before the answer arrives.
      while (readable(socket)) read_bulk(socket, milliseconds(50));
    } else if (job == kSource) {
      send_bulk(socket, SystemClock().now() + bulk_);
    } else {
      char byte = 0;
      while (readable(socket) && recv(socket, &byte, 1, 0) == 1) {
        send(socket, &byte, 1, MSG_NOSIGNAL);
      }
    }
  }

  const UniqueFd listener_;
  const Duration bulk_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Result<UniqueFd> open_job(const NetworkSide& side, const Address& address, char job) {
  OUTRIDER_ASSIGN_OR_RETURN(UniqueFd socket, tcp_connection(side, address));
  if (send(socket.get(), &job, 1, MSG_NOSIGNAL) != 1) return carries_nothing();
  return socket;
}

Result<std::vector<double>> measure_round_trips(const NetworkSide& side, const Address& address,
                                                int count) {
  OUTRIDER_ASSIGN_OR_RETURN(const UniqueFd socket, open_job(side, address, kEcho));
  const SystemClock clock;
  std::vector<double> round_trips;
  for (int i = 0; i < count; ++i) {
    char byte = 'x';
    const TimePoint sent = clock.now();
    if (send(socket.get(), &byte, 1, MSG_NOSIGNAL) != 1 || recv(socket.get(), &byte, 1, 0) != 1) {
      return carries_nothing();
    }
    round_trips.push_back(to_ms(clock.now() - sent));
  }
  return round_trips;
}

Result<double> measure_up(const NetworkSide& side, const Address& address, Duration bulk) {
  OUTRIDER_ASSIGN_OR_RETURN(const UniqueFd socket, open_job(side, address, kSink));
  send_bulk(socket.get(), SystemClock().now() + bulk + milliseconds(200));
  shutdown(socket.get(), SHUT_WR);
  double mbit_s = 0;
  if (recv(socket.get(), &mbit_s, sizeof mbit_s, MSG_WAITALL) != sizeof mbit_s) {
    return carries_nothing();
  }
  return mbit_s;
}

Result<double> measure_down(const NetworkSide& side, const Address& address, Duration bulk) {
  OUTRIDER_ASSIGN_OR_RETURN(const UniqueFd socket, open_job(side, address, kSource));
  char byte = 0;
  if (recv(socket.get(), &byte, 1, 0) != 1)
    return carries_nothing();  // counted from the first byte
  return read_bulk(socket.get(), bulk);
}

}  // namespace

Result<TcpMeasurement> probe_tcp(Link& link, const TcpProbePlan& plan) {
  OUTRIDER_ASSIGN_OR_RETURN(UniqueFd listener, tcp_listener(link.server_side()));
  OUTRIDER_ASSIGN_OR_RETURN(const Address far, local_address(listener.get()));
  const FarEnd far_end(std::move(listener), plan.bulk);
  OUTRIDER_ASSIGN_OR_RETURN(const Address address, link.route(far));
  const NetworkSide side = link.edge_side();
  TcpMeasurement measured;
  OUTRIDER_ASSIGN_OR_RETURN(measured.round_trips_ms,
                            measure_round_trips(side, address, plan.round_trips));
  OUTRIDER_ASSIGN_OR_RETURN(measured.up_mbit_s, measure_up(side, address, plan.bulk));
  OUTRIDER_ASSIGN_OR_RETURN(measured.down_mbit_s, measure_down(side, address, plan.bulk));
  return measured;
}

Json link_figures(const LinkProfile& profile, const LinkOptions& options,
                  const TcpProbePlan& plan) {
  Json figures = {{"asked", profile.description()}};
  const Result<std::unique_ptr<Link>> link = start_link(profile, options);
  const Result<TcpMeasurement> measured =
      link.ok() ? probe_tcp(**link, plan) : Result<TcpMeasurement>(link.status());
  if (!measured.ok()) {
    figures["error"] = measured.status().to_string();
    return figures;
  }
  const double rtt_ms = sample_quantile(measured->round_trips_ms, 0.5).value;
  figures["link"] = (*link)->kind();
  figures["rtt_p50_ms"] = rtt_ms;
  figures["up_mbit_s"] = measured->up_mbit_s;
  figures["down_mbit_s"] = measured->down_mbit_s;
  std::fprintf(stderr, "%s, %s, over TCP: RTT %.2f ms, up %.3g Mbit/s, down %.3g Mbit/s\n",
               profile.name.c_str(), (*link)->kind(), rtt_ms, measured->up_mbit_s,
               measured->down_mbit_s);
  return figures;
}

}  // namespace outrider
