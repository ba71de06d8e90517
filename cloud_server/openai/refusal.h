// An error in the form of OpenAI's clients, where keys are asked for.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/http/message.h"
#include "common/openai/completion_answer.h"

namespace outrider {

// As error_response(); UNAUTHENTICATED asks for a key.
inline HttpResponse refusal_of(const Status& status, Duration retry_after = kRetryAfter) {
  HttpResponse refusal = error_response(status, retry_after);
  if (status.code() == StatusCode::kUnauthenticated) {
    refusal.status = 401;
    refusal.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return refusal;
}

}  // namespace outrider
