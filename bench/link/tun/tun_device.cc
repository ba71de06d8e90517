// SPDX-License-Identifier: Apache-2.0
#include "bench/link/tun/tun_device.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "bench/link/tun/net_namespace.h"
#include "common/base/posix.h"

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

}  // namespace outrider
