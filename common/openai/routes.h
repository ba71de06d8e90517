// What servers with OpenAI's routes have in common.
//
// Thread rule: pure functions but for ids and the time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/http/message.h"
#include "common/openai/completion_answer.h"
#include "common/text/tokenizer.h"

namespace outrider {

inline constexpr const char* kChatRoute = "/v1/chat/completions";
inline constexpr const char* kCompletionRoute = "/v1/completions";
inline constexpr const char* kModelsRoute = "/v1/models";
inline constexpr const char* kTokenizeRoute = "/tokenize";
inline constexpr const char* kDetokenizeRoute = "/detokenize";

// A page of another site that runs in a browser here must not use this model: INVALID_ARGUMENT.
Status check_origin(const HttpRequest& request);

// The client's x-request-id; one of its own if it has none, or one that is_request_id() refuses.
std::string request_id_of(const HttpRequest& request);

// With an id of its own.
AnswerName new_answer(const std::string& model, bool is_chat);

HttpResponse json_response(const Json& json);
HttpResponse models_page(const std::string& model);
// {"content": TEXT} to {"tokens": [..]}
HttpResponse tokenize_page(const Tokenizer& tokenizer, const HttpRequest& request);
// {"tokens": [..]} to {"content": TEXT}, special tokens as they are written. What is not UTF-8, as
// half of a character, stands there as U+FFFD.
HttpResponse detokenize_page(const Tokenizer& tokenizer, const HttpRequest& request);

}  // namespace outrider
