// A model's answers to many prompts at once, and prompts that a chat model writes itself. Both are
// training text for drafts.
//
// One pass computes one row of each unfinished answer, so the weights are read once for all of
// them. When an answer ends, the next prompt takes its place. Any model that Outrider runs will do;
// it computes in the arithmetic in which it is served.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/model/model.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {

struct GenerateOptions {
  std::int64_t max_tokens = 256;
  float temperature = 0;   // 0: the likeliest token
  std::uint64_t seed = 1;  // with the prompt's number it gives the seed of an answer
  TokenId stop = 0;        // ends an answer; not part of it
  std::int64_t batch = 16;
};

// The answer to each prompt, without `stop`, cut off where an 8-gram of tokens occurs a second
// time. A prompt that fills the model's context gets an empty answer. on_progress(done) counts
// answers. Errors: those of the model.
Result<std::vector<std::vector<TokenId>>> generate(
    Model& model, const std::vector<std::vector<TokenId>>& prompts, const GenerateOptions& options,
    const std::function<void(std::int64_t)>& on_progress);

// --- Prompts that a chat model writes itself (Magpie, Xu et al. 2024) ---
//
// A chat model that gets only the opening of a user's turn continues with a message like those it
// was trained on. A draft trains on such messages where no other open questions are available.

// The tokens before a user's first message, with the default system prompt. No template's opening
// is empty. Errors: those of encode_chat().
Result<std::vector<TokenId>> opening_of_user_turn(const ChatTemplate& chat,
                                                  const Tokenizer& tokenizer);

// The continuations that are messages, in order, without repetitions. A message ends before
// max_tokens, has at least three words and is valid UTF-8.
Result<std::vector<std::string>> messages_of(const std::vector<std::vector<TokenId>>& written,
                                             std::int64_t max_tokens, const Tokenizer& tokenizer);

}  // namespace outrider
