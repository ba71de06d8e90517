// How much memory KV caches may take: what this machine and this process's control group have left
// once the weights are there.
//
// Thread rule: pure functions, except for the files that free_memory() reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// The smaller of what the machine has available and what the control groups above this process
// allow beyond what they use. root: where proc and sys are looked for; "" but in tests.
std::int64_t free_memory(const std::string& root = "");

// What a session of minimal length needs.
std::int64_t smallest_session_bytes(const ModelInfo& model);

// The bound for all KV caches. asked: --kv-cache-memory. INVALID_ARGUMENT, with the remedy, if not
// even one session of minimal length has room.
Result<std::int64_t> kv_cache_bytes(const std::string& asked, const ModelInfo& model,
                                    std::int64_t free_bytes);

}  // namespace outrider
