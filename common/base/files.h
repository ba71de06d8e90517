// Reads whole files. Their content is not trusted.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace outrider {

// The bytes of a regular file of at most `max_bytes`. The size is checked before memory is
// allocated. Errors: kNotFound; kInvalidArgument for a directory, FIFO or device, and for a larger
// file; kDataLoss for a Git LFS pointer in place of the content.
Result<std::string> read_file(const std::string& path, std::int64_t max_bytes);

// Like read_file(), for anything that can be read to its end, such as a shell's pipe (<(command))
// or /dev/stdin. Blocks until the writer closes it.
Result<std::string> read_stream(const std::string& path, std::int64_t max_bytes);

// The last part of a path, without a slash behind it; of "." and "..", the folder's own name.
// Empty: the root folder has none.
std::string last_name(const std::string& path);

}  // namespace outrider
