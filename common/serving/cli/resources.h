// What a program needs of its process, checked before it begins: libraries that lack a thread or a
// file descriptor later hang or abort.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "common/base/status.h"

namespace outrider {

// What the programs start beside the threads that compute: gRPC's, those of HTTP, of queues, of
// signals.
inline constexpr int kThreadsBesideCompute = 28;
// Of files, sockets, and what the libraries wait with.
inline constexpr std::size_t kDescriptors = 48;

// RESOURCE_EXHAUSTED if the system does not let this process have so many threads more, which are
// started for a moment.
Status check_threads(int count);
// RESOURCE_EXHAUSTED if the process may not open so many files more.
Status check_descriptors(std::size_t count);

}  // namespace outrider
