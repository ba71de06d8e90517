// Checks, before a program begins, that the system grants it enough threads and file descriptors:
// libraries that lack one later hang or abort.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "common/base/status.h"

namespace outrider {

// The number of threads beside those that compute: gRPC's, and those of HTTP, queues and signals.
inline constexpr int kThreadsBesideCompute = 28;
// The descriptors of files and sockets, and those with which the libraries wait.
inline constexpr std::size_t kDescriptors = 48;

// RESOURCE_EXHAUSTED if the system does not let this process have so many threads more, which are
// started for a moment.
Status check_threads(int count);
// RESOURCE_EXHAUSTED if the process may not open so many files more.
Status check_descriptors(std::size_t count);

}  // namespace outrider
