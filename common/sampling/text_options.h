// What an answer's text is to be: how its tokens are chosen, and what ends it. A command's flags, a
// request over HTTP, a check or a test fill it.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/sampling/sampling.h"

namespace outrider {

// What the law of choice takes beside logits and position.
struct TokenChoice {
  SamplingParams sampling = {};
  std::uint64_t seed = 0;
};

struct TextOptions {
  TokenChoice choice = {};
  std::int64_t max_tokens = -1;  // -1: until a stop or the end of the context
  std::vector<std::string> stop = {};
  bool ignore_eos = false;  // the model's stop tokens do not end it
};

}  // namespace outrider
