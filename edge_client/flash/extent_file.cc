// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/extent_file.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "common/base/posix.h"

namespace outrider {

Result<ExtentFile> ExtentFile::open(const std::string& path, bool direct) {
  ExtentFile file;
  file.path = path;
  if (direct) {
    file.descriptor = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    file.direct = file.descriptor.valid();
    // Some file systems refuse O_DIRECT; whatever else is wrong shows again without it.
    if (!file.direct) file.why_not = errno_message(errno);
  }
  if (!file.direct) file.descriptor = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.descriptor.valid()) return file;
  const std::string message = path + ": " + errno_message(errno);
  return errno == ENOENT ? not_found(message) : invalid_argument(message);
}

Status ExtentFile::failure(std::uint64_t offset, std::uint64_t bytes, std::int64_t result) const {
  const std::string what =
      path + ": " + std::to_string(bytes) + " bytes at " + std::to_string(offset) + ": ";
  if (result < 0) {
    return data_loss(what + errno_message(static_cast<int>(-result)) +
                     "; the disk or its connection fails");
  }
  return data_loss(what + "the file ends before them; it was cut short while in use");
}

bool ExtentFile::goes_on_buffered(bool sent_direct, std::int64_t result) {
  if (!sent_direct || result != -std::int64_t{EINVAL}) return false;
  if (!direct) return true;  // another read was refused before
  const int flags = ::fcntl(descriptor.get(), F_GETFL);
  if (flags < 0 || ::fcntl(descriptor.get(), F_SETFL, flags & ~O_DIRECT) != 0) return false;
  direct = false;
  why_not = errno_message(EINVAL);
  return true;
}

std::string ExtentFile::description() const {
  if (direct) return "direct";
  return why_not.empty() ? "buffered" : "buffered (direct: " + why_not + ")";
}

}  // namespace outrider
