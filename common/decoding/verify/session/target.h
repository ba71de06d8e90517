// The description of a verifier, the memory that follows from it, and the conditions under which it
// serves an Open (docs/protocol.md).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/engine/model/model.h"

namespace outrider {

// Constant while the verifier runs. Of an elastic target, one of its levels.
struct Target {
  ModelInfo model;
  std::string level = {};  // its name; empty: the target has no levels
  std::string tokenizer_hash;
  Limits limits;
  std::vector<std::int32_t> exits = {};  // layers after which it can report; none: no early exits
  std::string template_hash = {};        // of its chat template; empty: it has none
  DraftSource draft_source = DraftSource::kNone;
  bool drafts_forms = true;
};

Target make_target(const ModelInfo& model, const SchedulerOptions& options);

// Its levels, the full one first, alone with exits, which were trained on it. Without
// options.levels: the model, perhaps itself a level ("NAME@60").
std::vector<Target> make_targets(const ModelInfo& model, const SchedulerOptions& options);

// The one that answers an Open with this level. FAILED_PRECONDITION names those that there are.
Result<std::size_t> find_level(std::span<const Target> targets, const std::string& level);

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
