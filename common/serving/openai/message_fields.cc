// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/message_fields.h"

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/chat_fields.h"

namespace outrider {
namespace {

Json type_of_block(const Json& block) {
  return block.is_object() ? block.value("type", Json()) : Json();
}

Status other_block(const std::string& field, const Json& type) {
  return unimplemented("'" + field + ".type' " + type.dump(-1, ' ', true) +
                       " is not supported here: models here read text. Remedy: blocks of type "
                       "text, an assistant's tool_use, and a user's tool_result")
      .with_detail({.reason = "unsupported_parameter", .field = field + ".type"});
}

Status append_text(const Json& block, const std::string& field, std::string& text) {
  const Json type = type_of_block(block);
  if (type != "text") return other_block(field, type);
  OUTRIDER_RETURN_IF_ERROR(check_keys(block, field + ".", {"type", "text", "cache_control"}));
  const Json said = block.value("text", Json());
  if (!said.is_string()) return wrong(field + ".text", "a text");
  text += said.get_ref<const std::string&>();
  return {};
}

// A text, or a list of blocks that have one.
Result<std::string> text_of_blocks(const Json& content, const std::string& field) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong(field, "a text, or a list of blocks of type text");
  std::string text;
  for (const Json& block : content) {
    OUTRIDER_RETURN_IF_ERROR(append_text(block, field + "[]", text));
  }
  return text;
}

// Reads messages one after the other. A user's results of tools become messages of their own.
class BlockReader final {
 public:
  explicit BlockReader(std::vector<ChatMessage>& messages) : messages_(messages) {}

  Status read(const Json& message, const std::string& field) {
    if (!message.is_object()) return wrong(field, "an object with role and content");
    OUTRIDER_RETURN_IF_ERROR(check_keys(message, field + ".", {"role", "content"}));
    const std::optional<ChatRole> role = role_of(message.value("role", Json()));
    if (!role || role == ChatRole::kTool) return wrong(field + ".role", "user or assistant");
    said_ = {*role, ""};
    const Json content = message.value("content", Json());
    if (content.is_string()) {
      said_.content = content.get<std::string>();
      messages_.push_back(std::move(said_));
      return {};
    }
    if (!content.is_array()) return wrong(field + ".content", "a text, or a list of blocks");
    for (std::size_t i = 0; i < content.size(); ++i) {
      OUTRIDER_RETURN_IF_ERROR(
          read_block(content[i], field + ".content[" + std::to_string(i) + "]"));
    }
    flush();
    return {};
  }

 private:
  void flush() {
    if (said_.content.empty() && said_.sent_along.is_null()) return;
    messages_.push_back(
        {said_.role, std::exchange(said_.content, {}), std::exchange(said_.sent_along, nullptr)});
  }

  Status read_block(const Json& block, const std::string& field) {
    const Json type = type_of_block(block);
    const bool is_answer = said_.role == ChatRole::kAssistant;
    if (is_answer && type == "tool_use") return read_use(block, field);
    if (is_answer && (type == "thinking" || type == "redacted_thinking")) return {};
    if (said_.role == ChatRole::kUser && type == "tool_result") return read_result(block, field);
    return append_text(block, field, said_.content);
  }

  Status read_use(const Json& block, const std::string& field) {
    OUTRIDER_RETURN_IF_ERROR(
        check_keys(block, field + ".", {"type", "id", "name", "input", "cache_control", "caller"}));
    for (const char* key : {"id", "name"}) {
      if (!block.value(key, Json()).is_string()) return wrong(field + "." + key, "a text");
    }
    const Json input = block.value("input", Json());
    if (!input.is_object()) return wrong(field + ".input", "an object");
    OUTRIDER_ASSIGN_OR_RETURN(nlohmann::ordered_json call,
                              earlier_call(block["id"], block["name"], input, field + ".input"));
    call_ids_.insert(block["id"].get<std::string>());
    said_.sent_along["tool_calls"].push_back(std::move(call));
    return {};
  }

  Status read_result(const Json& block, const std::string& field) {
    OUTRIDER_RETURN_IF_ERROR(check_keys(
        block, field + ".", {"type", "tool_use_id", "content", "is_error", "cache_control"}));
    const Json id = block.value("tool_use_id", Json());
    if (!id.is_string() || !call_ids_.contains(id.get<std::string>())) {
      return wrong(field + ".tool_use_id", "that of a tool_use before it", id);
    }
    bool failed = false;
    if (const Json value = block.value("is_error", Json()); !value.is_null()) {
      OUTRIDER_RETURN_IF_ERROR(read_bool(value, field + ".is_error", failed));
    }
    const Json content = block.value("content", Json());
    std::string text;
    if (!content.is_null()) {
      OUTRIDER_ASSIGN_OR_RETURN(text, text_of_blocks(content, field + ".content"));
    }
    flush();  // text before it
    messages_.push_back({ChatRole::kTool,
                         (failed ? "Error: " : "") + text,
                         {{"tool_call_id", id.get<std::string>()}}});
    return {};
  }

  std::vector<ChatMessage>& messages_;
  ChatMessage said_;  // the message at hand, as far as it is read
  std::set<std::string> call_ids_;
};

}  // namespace

Status read_message_list(const Json& value, CompletionRequest& request) {
  if (!value.is_array() || value.empty()) {
    return wrong("messages", "a list of one message or more");
  }
  BlockReader reader(request.messages);
  for (std::size_t i = 0; i < value.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(reader.read(value[i], "messages[" + std::to_string(i) + "]"));
  }
  if (!request.messages.empty() && request.messages.back().role != ChatRole::kAssistant) return {};
  return wrong("messages", "ended by a message that is not empty and not the assistant's own");
}

Status read_system(const Json& value, CompletionRequest& request) {
  OUTRIDER_ASSIGN_OR_RETURN(std::string text, text_of_blocks(value, "system"));
  request.messages.insert(request.messages.begin(),
                          ChatMessage{ChatRole::kSystem, std::move(text)});
  return {};
}

Status read_thinking(const Json& value, CompletionRequest& request) {
  const Json type = type_of_block(value);
  if (type != "adaptive" && type != "enabled" && type != "disabled") {
    return wrong("thinking", "an object with the type adaptive, enabled or disabled");
  }
  OUTRIDER_RETURN_IF_ERROR(check_keys(value, "thinking.", {"type", "budget_tokens", "display"}));
  if (!value.value("budget_tokens", Json()).is_null()) {
    return unimplemented(
               "'thinking.budget_tokens' is not supported here: max_tokens bounds thinking and "
               "text together. Remedy: \"thinking\": {\"type\": \"adaptive\"}")
        .with_detail({.reason = "unsupported_parameter", .field = "thinking.budget_tokens"});
  }
  const Json display = value.value("display", Json());
  if (!display.is_null() && display != "summarized" && display != "omitted") {
    return wrong("thinking.display", "summarized or omitted", display);
  }
  const bool thinks = type != "disabled";
  if (!request.template_variables.contains("enable_thinking")) {
    request.template_variables["enable_thinking"] = thinks;
  }
  if (thinks) request.reads_reasoning = true;
  request.shows_reasoning = thinks && display != "omitted";
  return {};
}

Result<Json> chat_tool_choice(const Json& value, ToolUse& use) {
  if (value.is_null()) return value;
  const Json type = type_of_block(value);
  const Json name = value.is_object() ? value.value("name", Json()) : Json();
  if (type != "auto" && type != "any" && type != "none" && (type != "tool" || !name.is_string())) {
    return wrong("tool_choice",
                 "{\"type\": \"auto\"}, any, none, or {\"type\": \"tool\", \"name\": ..}");
  }
  OUTRIDER_RETURN_IF_ERROR(
      check_keys(value, "tool_choice.", {"type", "name", "disable_parallel_tool_use"}));
  if (const Json alone = value.value("disable_parallel_tool_use", Json()); !alone.is_null()) {
    bool one_call = false;
    OUTRIDER_RETURN_IF_ERROR(read_bool(alone, "tool_choice.disable_parallel_tool_use", one_call));
    use.in_parallel = !one_call;
  }
  if (type == "any") return Json("required");
  if (type != "tool") return type;
  return Json{{"type", "function"}, {"function", {{"name", name}}}};
}

}  // namespace outrider
