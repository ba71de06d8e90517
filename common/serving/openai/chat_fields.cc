// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/chat_fields.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "common/serving/openai/body_fields.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxToolNameBytes = 64;

// A text, or a list of text parts.
Result<std::string> content_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  const Status expected = wrong("messages[].content", "a text, or a list of parts of type text");
  if (!content.is_array()) return expected;
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return expected;
    }
    OUTRIDER_RETURN_IF_ERROR(
        check_keys(part, "messages[].content[].", {"type", "text", "cache_control"}));
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

// Fields that clients send beside a message's content. The template may write them.
constexpr std::array<const char*, 4> kSentAlong = {"name", "reasoning_content", "reasoning",
                                                   "tool_call_id"};

Result<nlohmann::ordered_json> read_call(const Json& call) {
  const std::string field = "messages[].tool_calls[]";
  if (!call.is_object() || !call.value("function", Json()).is_object()) {
    return wrong(field, "an object with id, type and function");
  }
  OUTRIDER_RETURN_IF_ERROR(check_keys(call, field + ".", {"id", "type", "function", "index"}));
  if (!call.value("id", Json()).is_string()) return wrong(field + ".id", "a text");
  if (call.value("type", Json("function")) != "function") {
    return unsupported(field + ".type");
  }
  const Json& function = call["function"];
  OUTRIDER_RETURN_IF_ERROR(check_keys(function, field + ".function.", {"name", "arguments"}));
  if (!function.value("name", Json()).is_string()) {
    return wrong(field + ".function.name", "a text");
  }
  return earlier_call(call["id"], function["name"], function.value("arguments", Json("{}")),
                      field + ".function.arguments");
}

Status read_calls(const Json& value, ChatMessage& message, std::set<std::string>& ids) {
  if (!value.is_array()) return wrong("messages[].tool_calls", "a list of calls");
  if (value.empty()) return {};
  if (message.role != ChatRole::kAssistant) {
    return wrong("messages[].tool_calls", "in messages of the role assistant only");
  }
  auto calls = nlohmann::ordered_json::array();
  for (const Json& each : value) {
    OUTRIDER_ASSIGN_OR_RETURN(nlohmann::ordered_json call, read_call(each));
    ids.insert(call["id"].get<std::string>());
    calls.push_back(std::move(call));
  }
  message.sent_along["tool_calls"] = std::move(calls);
  return {};
}

// A result is of a call that was made.
Status check_call_id(const ChatMessage& message, const std::set<std::string>& ids) {
  constexpr const char* kField = "messages[].tool_call_id";
  if (!message.sent_along.contains("tool_call_id")) {
    return message.role == ChatRole::kTool ? missing(kField) : Status();
  }
  const auto id = message.sent_along["tool_call_id"].get<std::string>();
  if (message.role != ChatRole::kTool) return wrong(kField, "in messages of the role tool only");
  if (ids.contains(id)) return {};
  return wrong(kField, "the id of a call in an earlier message of the assistant's", Json(id));
}

// ids: of the calls so far.
Result<ChatMessage> read_message(const Json& message, std::set<std::string>& ids) {
  if (!message.is_object()) return wrong("messages[]", "an object with role and content");
  OUTRIDER_RETURN_IF_ERROR(
      check_keys(message, "messages[].",
                 {"role", "content", "cache_control", "tool_calls", kSentAlong[0], kSentAlong[1],
                  kSentAlong[2], kSentAlong[3]}));
  const std::optional<ChatRole> role = role_of(message.value("role", Json()));
  if (!role) return wrong("messages[].role", "system, user, assistant or tool");
  ChatMessage read{*role, ""};
  if (const Json calls = message.value("tool_calls", Json()); !calls.is_null()) {
    OUTRIDER_RETURN_IF_ERROR(read_calls(calls, read, ids));
  }
  const Json content = message.value("content", Json());
  // An answer that is a call has no text.
  if (!content.is_null() || !read.sent_along.contains("tool_calls")) {
    OUTRIDER_ASSIGN_OR_RETURN(read.content, content_of(content));
  }
  for (const char* name : kSentAlong) {
    const Json value = message.value(name, Json());
    if (value.is_null()) continue;
    if (!value.is_string()) return wrong("messages[]." + std::string(name), "a text", value);
    read.sent_along[name] = value.get<std::string>();
  }
  OUTRIDER_RETURN_IF_ERROR(check_call_id(read, ids));
  return read;
}

bool may_name_tool(const std::string& name) {
  return !name.empty() && name.size() <= kMaxToolNameBytes &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
         });
}

// The function of a tool. where: its field, with a dot.
Result<Tool> read_function(const nlohmann::ordered_json& function, const std::string& where) {
  const auto name = function.value("name", nlohmann::ordered_json());
  if (name.is_null()) return missing(where + "name");
  if (!name.is_string() || !may_name_tool(name.get<std::string>())) {
    return wrong(where + "name",
                 "letters, digits, '_', '-' and '.', up to " + std::to_string(kMaxToolNameBytes),
                 Json(name));
  }
  const auto description = function.value("description", nlohmann::ordered_json());
  if (!description.is_null() && !description.is_string()) {
    return wrong(where + "description", "a text", Json(description));
  }
  Tool tool{.name = name.get<std::string>()};
  tool.parameters = function.value("parameters", nlohmann::ordered_json());
  if (!tool.parameters.is_null() && !tool.parameters.is_object()) {
    return wrong(where + "parameters", "a JSON schema, which is an object");
  }
  const auto strict = function.value("strict", nlohmann::ordered_json());
  if (!strict.is_null() && !strict.is_boolean()) {
    return wrong(where + "strict", "true or false", Json(strict));
  }
  tool.strict = strict == true;
  return tool;
}

// A chat's tool, which templates are given as it is.
Result<Tool> read_chat_tool(const nlohmann::ordered_json& value, const std::string& field) {
  if (!value.is_object() || value.value("type", nlohmann::ordered_json()) != "function" ||
      !value.contains("function") || !value["function"].is_object()) {
    return wrong(field, "an object with \"type\": \"function\" and function");
  }
  OUTRIDER_RETURN_IF_ERROR(check_keys(value, field + ".", {"type", "function", "cache_control"}));
  const std::string where = field + ".function.";
  OUTRIDER_RETURN_IF_ERROR(
      check_keys(value["function"], where, {"name", "description", "parameters", "strict"}));
  return read_function(value["function"], where);
}

// A response's tool; value becomes the same as a chat's.
Result<Tool> read_flat_tool(nlohmann::ordered_json& value, const std::string& field) {
  if (!value.is_object() || value.value("type", nlohmann::ordered_json()) != "function") {
    return wrong(field, "an object with \"type\": \"function\": there are no built-in tools here");
  }
  OUTRIDER_RETURN_IF_ERROR(
      check_keys(value, field + ".", {"type", "name", "description", "parameters", "strict"}));
  auto function = nlohmann::ordered_json::object();
  for (const auto& [key, each] : value.items()) {
    if (key != "type" && !each.is_null()) function[key] = each;
  }
  value = {{"type", "function"}, {"function", std::move(function)}};
  return read_function(value["function"], field + ".");
}

// A message's tool; value becomes the same as a chat's.
Result<Tool> read_custom_tool(nlohmann::ordered_json& value, const std::string& field) {
  const auto type = value.is_object() ? value.value("type", nlohmann::ordered_json()) : value;
  if (!value.is_object() || (!type.is_null() && type != "custom")) {
    return wrong(field, "an object with name and input_schema: there are no built-in tools here");
  }
  OUTRIDER_RETURN_IF_ERROR(check_keys(value, field + ".",
                                      {"type", "name", "description", "input_schema", "strict",
                                       "cache_control", "eager_input_streaming"}));
  auto function = nlohmann::ordered_json::object();
  for (const auto& [key, each] : value.items()) {
    const bool is_idle = key == "type" || key == "cache_control" || key == "eager_input_streaming";
    if (is_idle || each.is_null()) continue;
    function[key == "input_schema" ? "parameters" : key] = each;
  }
  value = {{"type", "function"}, {"function", std::move(function)}};
  Result<Tool> tool = read_function(value["function"], field + ".");
  if (tool.ok() || tool.status().detail().field != field + ".parameters") return tool;
  return wrong(field + ".input_schema", "a JSON schema, which is an object");
}

Result<Tool> read_tool(nlohmann::ordered_json& value, Api api, const std::string& field) {
  if (api == Api::kResponses) return read_flat_tool(value, field);
  return api == Api::kMessages ? read_custom_tool(value, field) : read_chat_tool(value, field);
}

// The name in {"type": "function", "function": {"name": ..}}, or without "function" around it;
// empty: it is no such object.
std::string chosen_name(const Json& value, Api api) {
  if (!value.is_object() || value.value("type", Json()) != "function") return "";
  const Json function = api == Api::kResponses ? value : value.value("function", Json());
  const Json name = function.is_object() ? function.value("name", Json()) : Json();
  return name.is_string() ? name.get<std::string>() : "";
}

}  // namespace

std::optional<ChatRole> role_of(const Json& role) {
  if (role == "system" || role == "developer") return ChatRole::kSystem;
  if (role == "user") return ChatRole::kUser;
  if (role == "assistant") return ChatRole::kAssistant;
  if (role == "tool") return ChatRole::kTool;
  return std::nullopt;
}

Result<nlohmann::ordered_json> earlier_call(const Json& id, const Json& name, const Json& arguments,
                                            const std::string& field) {
  auto object = nlohmann::ordered_json::object();
  if (arguments.is_object()) object = arguments;
  if (arguments.is_string() && arguments != "") {
    object = nlohmann::ordered_json::parse(arguments.get<std::string>(), nullptr, false);
  }
  if ((!arguments.is_object() && !arguments.is_string()) || !object.is_object()) {
    return wrong(field, "a JSON object, written as a text");
  }
  return nlohmann::ordered_json({{"id", id},
                                 {"type", "function"},
                                 {"function", {{"name", name}, {"arguments", std::move(object)}}}});
}

Status check_keys(const Json& object, const std::string& where,
                  std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const bool says_nothing =
        value.is_null() || value == "" || (value.is_structured() && value.empty());
    if (!says_nothing) return unsupported(where + key);
  }
  return {};
}

Status read_messages(const Json& value, std::vector<ChatMessage>& out) {
  if (!value.is_array() || value.empty()) {
    return wrong("messages", "a list of one message or more");
  }
  std::set<std::string> call_ids;
  for (const Json& message : value) {
    OUTRIDER_ASSIGN_OR_RETURN(ChatMessage read, read_message(message, call_ids));
    out.push_back(std::move(read));
  }
  if (out.back().role == ChatRole::kAssistant) {
    return wrong("messages", "ended by a message that is not the assistant's own");
  }
  return {};
}

Status read_tools(const nlohmann::ordered_json& value, Api api, ToolUse& use) {
  if (!value.is_array() || value.size() > kMaxTools) {
    return wrong("tools", "a list of up to " + std::to_string(kMaxTools) + " tools");
  }
  use.written = value;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string field = "tools[" + std::to_string(i) + "]";
    OUTRIDER_ASSIGN_OR_RETURN(Tool tool, read_tool(use.written[i], api, field));
    if (has_tool(use.tools, tool.name)) {
      return wrong(field + (api == Api::kChat ? ".function.name" : ".name"),
                   "a name that no other tool has", Json(tool.name));
    }
    use.tools.push_back(std::move(tool));
  }
  return {};
}

Status read_tool_choice(const Json& value, Api api, ToolUse& use) {
  if (value.is_null() || value == "auto") return {};
  if (value == "none") {
    use = {};
    return {};
  }
  const std::string name = chosen_name(value, api);
  if (value != "required" && name.empty()) {
    return wrong("tool_choice",
                 api == Api::kResponses
                     ? "auto, none, required, or {\"type\": \"function\", \"name\": ..}"
                     : "auto, none, required, or {\"type\": \"function\", "
                       "\"function\": {\"name\": ..}}");
  }
  if (use.tools.empty()) return wrong("tool_choice", "auto or none where there are no tools");
  if (!name.empty() && !has_tool(use.tools, name)) {
    return wrong("tool_choice", "one of the tools", Json(name));
  }
  use.must_call = true;
  use.only = name;
  return {};
}

}  // namespace outrider
