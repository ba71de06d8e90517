// SPDX-License-Identifier: Apache-2.0
#include "emulation/process/net_namespace.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

namespace outrider {
namespace {

constexpr const char* kOwnNamespace = "/proc/thread-self/ns/net";

Status loopback_up() {
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!any.valid() || ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) {
    return unavailable("network namespace: its loopback does not come up: " + errno_message(errno));
  }
  return {};
}

Result<UniqueFd> make_namespace() {
  if (unshare(CLONE_NEWNET) != 0) {
    return failed_precondition("a network namespace cannot be made: " + errno_message(errno) +
                               "; an emulated link needs root, or CAP_SYS_ADMIN and CAP_NET_ADMIN");
  }
  UniqueFd fd(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return unavailable("network namespace: " + errno_message(errno));
  OUTRIDER_RETURN_IF_ERROR(loopback_up());
  return fd;
}

}  // namespace

Result<NetNamespace> NetNamespace::create() {
  Result<UniqueFd> made = internal_error("not made");
  // On a thread of its own, so that the caller stays in its namespace.
  std::thread([&made] { made = make_namespace(); }).join();
  if (!made.ok()) return made.status();
  return NetNamespace(*std::move(made));
}

Result<InNamespace> InNamespace::enter(int fd) {
  UniqueFd home(open(kOwnNamespace, O_RDONLY | O_CLOEXEC));
  if (!home.valid() || setns(fd, CLONE_NEWNET) != 0) {
    return unavailable("a network namespace cannot be entered: " + errno_message(errno));
  }
  return InNamespace(std::move(home));
}

InNamespace::~InNamespace() {
  // To continue in another network would be worse than to abort.
  if (home_.valid()) OUTRIDER_CHECK(setns(home_.get(), CLONE_NEWNET) == 0);
}

}  // namespace outrider
