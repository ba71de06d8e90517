// How fast the threads of a pool read memory in a plain loop: what decoding is held against.
//
// Thread rule: one thread calls. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/base/thread_pool.h"

namespace outrider {

// Bytes per second of a plain read of all weights.
double read_rate(ThreadPool& pool, const std::vector<std::span<const std::byte>>& memory);

}  // namespace outrider
