// A request as the prompt of a model, and what is to be read from the answer.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/openai/completion_request.h"
#include "common/serving/tools/answer_parser.h"
#include "common/serving/tools/answer_reading.h"

namespace outrider {

// How chats become prompts, by the operator's choice.
struct ChatForm {
  ChatSource source = {};
  std::string template_name = {};  // empty: the source's default
  AnswerReading reading = {};
};

struct RequestPrompt {
  std::vector<EncodedPrompt> prompts;  // of a chat one
  AnswerSyntax syntax;
  ConstraintSpec form = {};        // of an answer that is a call, or may have some; kind kNone: any
  std::string form_field = {};     // that asks for it
  bool strict_is_ignored = false;  // calls of strict functions cannot be held to their schema
};

// The seed of a choice: of the first the request's own.
std::uint64_t seed_of_choice(std::uint64_t seed, std::size_t index);

// context: as check_text_fits(). Errors: its own, and those of ChatTemplate and
// calls_of_template().
Result<RequestPrompt> encode_request(const Tokenizer& tokenizer, const CompletionRequest& request,
                                     const ChatForm& form, Position context = 0);

}  // namespace outrider
