// The file that an ExtentReader reads. Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

struct ExtentFile {
  UniqueFd descriptor;
  std::string path;
  bool direct = false;
  std::string why_not;  // words of the system, if it was wished and is not direct

  // Errors: NOT_FOUND, INVALID_ARGUMENT with the system's words.
  static Result<ExtentFile> open(const std::string& path, bool direct);

  // The error of a read of `bytes` at `offset` that gave `result`: minus an error number, or how
  // many bytes came.
  Status failure(std::uint64_t offset, std::uint64_t bytes, std::int64_t result) const;
  // Whether a read that was sent as a direct one, and gave `result`, was refused for that: some
  // file systems open a file and refuse the read. It may then be sent again, as all reads are
  // buffered.
  bool goes_on_buffered(bool sent_direct, std::int64_t result);
  // "direct", "buffered (direct: Invalid argument)".
  std::string description() const;
};

}  // namespace outrider
