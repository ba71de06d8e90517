// The description of a verifier, the memory that follows from it, and the conditions under which it
// serves an Open (docs/protocol.md).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/model/model.h"

namespace outrider {

// Constant while the verifier runs.
struct Target {
  ModelInfo model;
  std::string tokenizer_hash;
  Limits limits;
  std::vector<std::int32_t> exits = {};  // layers after which it can report; none: no early exits
  std::string template_hash = {};        // of its chat template; empty: it has none
  DraftSource draft_source = DraftSource::kNone;
  bool drafts_forms = true;
};

Target make_target(const ModelInfo& model, const SchedulerOptions& options);

// Slots of a session's KV cache: the whole context, so that any session can take over any other's.
std::int32_t cache_capacity(const Limits& limits);

inline constexpr std::size_t kSessionKeyDigits = 32;

// All that can be said of an Open before its prefix is there. Errors as check_open()'s.
Status check_open_head(const Open& open, const Target& target);

// INVALID_ARGUMENT: a value is wrong whatever the verifier. FAILED_PRECONDITION: the two sides do
// not fit; names both values.
Status check_open(const Open& open, const Target& target);

Status check_policy(const Policy& policy);

}  // namespace outrider
