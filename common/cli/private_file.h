// Files that hold secrets. Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// The text of a regular file of at most 1 MiB. NOT_FOUND if it is not there; FAILED_PRECONDITION,
// with the remedy, if others than its owner and group may read it, or it is no such file.
Result<std::string> read_private_file(const std::string& path);

// Its first line, without blanks around it: one secret. INVALID_ARGUMENT if there is none.
Result<std::string> read_secret(const std::string& path);

}  // namespace outrider
