// Counts what the test program allocates, by its own operator new.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace outrider {

// Since the program started, on all threads.
std::int64_t num_allocations();

}  // namespace outrider
