// SPDX-License-Identifier: Apache-2.0
#include "bench/link/probe/datagram_echo.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <chrono>

#include "bench/link/probe/probe_socket.h"
#include "bench/link/tun/real_time_thread.h"

namespace outrider {

Result<std::unique_ptr<DatagramEcho>> DatagramEcho::start(const NetworkSide& side) {
  OUTRIDER_ASSIGN_OR_RETURN(UniqueFd socket, udp_socket(side));
  OUTRIDER_ASSIGN_OR_RETURN(Address address, local_address(socket.get()));
  std::unique_ptr<DatagramEcho> echo(new DatagramEcho(std::move(socket), std::move(address)));
  echo->thread_ = std::thread([&shared = *echo] { shared.run(); });
  return echo;
}

void DatagramEcho::run() const {
  constexpr Duration kLook = std::chrono::milliseconds(50);  // for the end
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

}  // namespace outrider
