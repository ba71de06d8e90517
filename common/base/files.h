// Reading whole files that a stranger may have written.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace outrider {

// The bytes of a regular file of at most `max_bytes`. The size is checked before memory is taken.
// Errors: kNotFound; kInvalidArgument for a directory, FIFO or device, and for a larger file;
// kDataLoss for a Git LFS pointer that stands where the content should be.
Result<std::string> read_file(const std::string& path, std::int64_t max_bytes);

// The same of anything that can be read to its end, such as a pipe (<(command) of a shell) or
// /dev/stdin. Blocks until its writer has ended it.
Result<std::string> read_stream(const std::string& path, std::int64_t max_bytes);

}  // namespace outrider
