// The fields of a request to /v1/messages, Anthropic's form of a chat, that chats have in another
// form, read into the same structures.
//
// Thread rule: pure functions. Errors: those of body_fields.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/serving/openai/completion_request.h"

namespace outrider {

// Messages whose content is a text or a list of blocks: text, calls of tools, their results, and
// thinking, which is passed over.
Status read_message_list(const Json& value, CompletionRequest& request);
// A system message that stands before all others.
Status read_system(const Json& value, CompletionRequest& request);
// Whether the model thinks first, as far as its template knows that, and whether the answer shows
// it.
Status read_thinking(const Json& value, CompletionRequest& request);
// A choice of tools as chats have it; notes in `use` whether calls may come together.
Result<Json> chat_tool_choice(const Json& value, ToolUse& use);

}  // namespace outrider
