// What a verifier says of itself, and the memory that follows from it.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/model.h"
#include "common/protocol/messages.h"
#include "common/verify/scheduler_options.h"

namespace outrider {

// Constant while the verifier runs.
struct Target {
  ModelInfo model;
  std::string tokenizer_hash;
  Limits limits;
  std::vector<std::int32_t> exits = {};  // layers after which it can report; none: no early exits
};

Target make_target(const ModelInfo& model, const SchedulerOptions& options);

// Slots of a session's KV cache: the whole context, so that any session can take over any other's.
std::int32_t cache_capacity(const Limits& limits);

}  // namespace outrider
