// An error in the form that OpenAI's clients read, or Anthropic's, with the matching HTTP status,
// for all routes. Its "code" is the status' reason, such as context_length_exceeded, or else says
// what the status code does; its "param" is the field that the status names.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/serving/http/message.h"

namespace outrider {

enum class ErrorForm : std::uint8_t {
  kOpenai,     // {"error": {message, type, param, code}}
  kAnthropic,  // {"type": "error", "error": {..}}, whose type is one of Anthropic's
};

// RESOURCE_EXHAUSTED (429) and UNAVAILABLE (503) carry Retry-After, in whole seconds, and
// Retry-After-Ms, which OpenAI's clients prefer: neither is shorter than retry_after. Without one,
// each response carries another delay of about two seconds, so that refused clients do not come
// back together. UNAUTHENTICATED (401) requests a key.
HttpResponse error_response(const Status& status,
                            std::optional<Duration> retry_after = std::nullopt,
                            ErrorForm error_form = ErrorForm::kOpenai);

}  // namespace outrider
