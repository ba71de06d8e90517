// The fields of a request to /v1/responses that chats have in another form, read into the same
// structures.
//
// Thread rule: pure functions. Errors: those of body_fields.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/serving/openai/completion_request.h"

namespace outrider {

// A text, or a list of items: messages, calls of functions, their results, and reasoning, which is
// passed over.
Status read_input(const Json& value, CompletionRequest& request);
// A system message that stands before all others.
Status read_instructions(const Json& value, CompletionRequest& request);
Status read_include(const Json& value, CompletionRequest& request);
Status read_reasoning(const Json& value);

// Checks the fields that depend on each other, and notes what the response repeats of them. body:
// its keys in the client's order.
Status check_response_request(const nlohmann::ordered_json& body, CompletionRequest& request);

// The refusal of a field that there is not, with what does the same here.
Status unsupported_in_response(std::string_view field);

}  // namespace outrider
