// What an Open must be for this verifier to serve it (PROTOCOL "Identity and reconnect").
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "common/protocol/messages.h"

namespace outrider {

// What a verifier says of itself; constant while it runs.
struct Target {
  ModelInfo model;
  std::string tokenizer_hash;
  Limits limits;
  std::vector<std::int32_t> exits = {};  // layers after which it can report; none: no early exits
};

// INVALID_ARGUMENT: a value is wrong whatever the verifier. FAILED_PRECONDITION: the two sides do
// not fit; names both values.
Status check_open(const Open& open, const Target& target);

Status check_policy(const Policy& policy);

}  // namespace outrider
