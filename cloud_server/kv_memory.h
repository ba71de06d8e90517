// Memory for KV caches: what this machine and this process's control group have left after the
// weights are loaded.
//
// Thread rule: pure functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/engine/model/model.h"

namespace outrider {

// Memory of a session of minimal length.
std::int64_t smallest_session_bytes(const ModelInfo& model);

// The bound for all KV caches. asked: --kv-cache-memory. free_bytes: those of free_memory(). If a
// session of minimal length does not fit, INVALID_ARGUMENT, or RESOURCE_EXHAUSTED for auto, with
// the remedy.
Result<std::int64_t> kv_cache_bytes(const std::string& asked, const ModelInfo& model,
                                    std::int64_t free_bytes);

// RESOURCE_EXHAUSTED if the system does not give this model so many bytes for keys and values,
// which are taken for a moment: else every answer would wait for them.
Status check_kv_memory(Model& model, std::int64_t bytes);

}  // namespace outrider
