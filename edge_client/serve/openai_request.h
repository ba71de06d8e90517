// What an OpenAI client asks, read strictly: what this edge cannot do is refused by its name, never
// passed over.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/conversation/chat_template.h"
#include "edge_client/generation/generation_config.h"

namespace outrider {

struct CompletionRequest {
  bool is_chat = false;
  std::vector<ChatMessage> messages;  // of a chat
  std::string prompt;                 // of a plain completion
  AnswerConfig config;
  bool stream = false;
  bool stream_usage = false;  // stream_options.include_usage
};

// defaults: what the request does not name. Errors: INVALID_ARGUMENT for a wrong value and for text
// that is not JSON, UNIMPLEMENTED for what is not supported; both name the field.
Result<CompletionRequest> parse_completion(std::string_view body, bool is_chat,
                                           const AnswerConfig& defaults);

}  // namespace outrider
