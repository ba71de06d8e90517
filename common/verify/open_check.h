// What an Open must be for this verifier to serve it (PROTOCOL "Identity and reconnect").
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "common/verify/target.h"

namespace outrider {

inline constexpr std::size_t kSessionKeyDigits = 32;

// All that can be said of an Open before its prefix is there. Errors as check_open()'s.
Status check_open_head(const Open& open, const Target& target);

// INVALID_ARGUMENT: a value is wrong whatever the verifier. FAILED_PRECONDITION: the two sides do
// not fit; names both values.
Status check_open(const Open& open, const Target& target);

Status check_policy(const Policy& policy);

}  // namespace outrider
