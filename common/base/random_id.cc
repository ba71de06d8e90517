// SPDX-License-Identifier: Apache-2.0
#include "common/base/random_id.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "common/base/status.h"

namespace outrider {

// Not std::random_device: each of its constructors asks the processor what it can do, which a
// virtual machine answers slowly.
std::string random_id() {
  std::array<std::uint8_t, 16> bytes;
  ssize_t got = 0;
  do {  // so few bytes come whole, or not at all before the system has gathered any
    got = getrandom(bytes.data(), bytes.size(), 0);
  } while (got < 0 && errno == EINTR);
  OUTRIDER_CHECK(got == static_cast<ssize_t>(bytes.size()));
  std::string id;
  for (const std::uint8_t byte : bytes) {
    id += "0123456789abcdef"[byte >> 4];
    id += "0123456789abcdef"[byte & 15];
  }
  return id;
}

}  // namespace outrider
