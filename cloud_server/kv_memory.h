// Memory for KV caches: what this machine and this process's control group have left after the
// weights are loaded.
//
// Thread rule: pure functions, except for the files that free_memory() reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// The smaller of the machine's available memory and what the control groups above this process
// still allow. root: parent of proc and sys; "" except in tests.
std::int64_t free_memory(const std::string& root = "");

// Memory of a session of minimal length.
std::int64_t smallest_session_bytes(const ModelInfo& model);

// The bound for all KV caches. asked: --kv-cache-memory. INVALID_ARGUMENT, with the remedy, if a
// session of minimal length does not fit.
Result<std::int64_t> kv_cache_bytes(const std::string& asked, const ModelInfo& model,
                                    std::int64_t free_bytes);

}  // namespace outrider
