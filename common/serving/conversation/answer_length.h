// The length that an answer may have, given its prompt.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

inline constexpr char kContextExceeded[] = "context_length_exceeded";

// INVALID_ARGUMENT for a prompt that leaves no room for an answer. context: tokens of both.
// about: words before the number, such as "at least ".
inline Status check_prompt_fits(Position prompt_tokens, Position context,
                                const std::string& remedy = "shorten the prompt",
                                const std::string& about = "") {
  if (prompt_tokens < context) return {};
  return invalid_argument("the prompt has " + about + std::to_string(prompt_tokens) +
                          " tokens, but the context holds " + std::to_string(context) + "; " +
                          remedy)
      .with_detail({.reason = kContextExceeded, .field = {}});
}

// The end position of an answer with at most so many tokens; negative: as many as fit.
inline Position answer_end(Position prompt_tokens, std::int64_t max_tokens, Position context) {
  const bool bounded = max_tokens >= 0 && max_tokens < context - prompt_tokens;
  return bounded ? prompt_tokens + static_cast<Position>(max_tokens) : context;
}

}  // namespace outrider
