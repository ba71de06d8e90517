// The fields of a chat's request: messages, and the tools that its answer may call.
//
// Thread rule: pure functions. Errors: those of body_fields.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/serving/conversation/chat_template.h"
#include "common/serving/openai/completion_answer.h"
#include "common/serving/tools/tool.h"

namespace outrider {

inline constexpr std::size_t kMaxTools = 128;

// The tools of a request, and how they may be used.
struct ToolUse {
  nlohmann::ordered_json written = nlohmann::ordered_json::array();  // as the template gets them
  Tools tools = {};
  bool in_parallel = true;  // an answer may have more than one call
  bool must_call = false;   // the answer is a call
  std::string only = {};    // of this tool; empty: of any
};

// OpenAI's messages. Each ends a turn or a call, so the last one is not the assistant's.
Status read_messages(const Json& value, std::vector<ChatMessage>& out);
std::optional<ChatRole> role_of(const Json& role);
// A call that an earlier answer made, as templates write it. arguments: an object, or its text.
// field: where the arguments stand.
Result<nlohmann::ordered_json> earlier_call(const Json& id, const Json& name, const Json& arguments,
                                            const std::string& field);
// tools: in the order in which the client wrote the keys, which templates keep. Those of a response
// or a message have no "function" around them.
Status read_tools(const nlohmann::ordered_json& value, Api api, ToolUse& use);
// auto, none, required, or a tool; behind read_tools().
Status read_tool_choice(const Json& value, Api api, ToolUse& use);

// Refuses an object with a key that is not known, unless its value says nothing.
Status check_keys(const Json& object, const std::string& where,
                  std::initializer_list<std::string_view> known);

}  // namespace outrider
