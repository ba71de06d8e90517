// An error in the form that OpenAI's clients read, with a fitting status. All errors of all routes
// have it.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/message.h"

namespace outrider {

// What a client is told to wait for if nothing better is known.
inline constexpr Duration kRetryAfter = std::chrono::seconds(2);

// RESOURCE_EXHAUSTED (429) and UNAVAILABLE (503) carry Retry-After; UNAUTHENTICATED (401) asks for
// a key.
HttpResponse error_response(const Status& status, Duration retry_after = kRetryAfter);

}  // namespace outrider
