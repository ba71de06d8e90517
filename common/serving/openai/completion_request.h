// Parses an OpenAI client's request strictly: unsupported fields are refused by name; only fields
// that cannot change the text are ignored.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/request/slo.h"
#include "common/decoding/request/text_options.h"
#include "common/serving/conversation/chat_template.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/openai/chat_fields.h"
#include "common/serving/openai/completion_answer.h"

namespace outrider {

// How an answer shall be computed.
struct CompletionParams {
  TextOptions text = {};
  bool speculation = false;  // a field of our own; only where there is a draft may it be true
  LevelWish wish = {};       // of an elastic model: "model": "NAME@LEVEL", "slo": {..}
};

// The most choices of all prompts together.
inline constexpr std::size_t kMaxChoices = 128;

// A plain prompt: a text, or the tokens that it is.
struct PromptText {
  std::string text = {};
  std::vector<TokenId> ids = {};  // not empty: in place of the text
};

struct CompletionRequest {
  Api api = Api::kCompletions;
  // Whether its prompt is a conversation, which a chat template writes.
  bool is_chat() const { return api != Api::kCompletions; }
  std::vector<ChatMessage> messages = {};          // of a conversation
  nlohmann::ordered_json template_variables = {};  // chat_template_kwargs; null: none
  ToolUse tool_use = {};
  std::optional<bool> reads_reasoning = {};  // apart from the text; nothing: as the program does
  bool shows_reasoning = true;               // else what was read apart is left out
  std::vector<PromptText> prompts = {};      // of a plain completion
  RawOptions raw = {};                       // how they become tokens
  std::string suffix = {};                   // stands behind their answers; empty: none
  std::int64_t choices = 1;                  // of each prompt
  std::optional<std::int64_t> best_of = {};
  std::string form_field = {};  // that asks for the answer's form (params); empty: none does
  bool wants_logprobs = false;  // of a conversation; params.text.top_logprobs says how many
  bool echo = false;            // an answer begins with its prompt
  bool shows_answer = true;     // else (max_tokens is 0) it is its prompt alone
  CompletionParams params = {};
  bool stream = false;
  AnswerExtras extras = {};
  std::string model = {};  // as the client names it
  // Fields that were ignored because they cannot change the text.
  std::vector<std::string> ignored = {};
  nlohmann::ordered_json repeated = {};  // what the answer says of its request
};

// defaults: for fields that the request does not name. Errors: those of body_fields.h.
Result<CompletionRequest> parse_completion(std::string_view body, Api api,
                                           const CompletionParams& defaults);

}  // namespace outrider
