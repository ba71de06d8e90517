// The file that an ExtentReader reads. Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

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
  // "direct", "buffered (direct: Invalid argument)".
  std::string description() const;
};

}  // namespace outrider
