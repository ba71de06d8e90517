// The ExtentReader on io_uring. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "edge_client/flash/extent_file.h"
#include "edge_client/flash/extent_reader.h"

namespace outrider {

// Takes the file if it gives a reader. UNAVAILABLE with the system's words where kernel or
// container refuse io_uring.
Result<std::unique_ptr<ExtentReader>> make_uring_reader(ExtentFile& file);

}  // namespace outrider
