// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/response_fields.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/chat_fields.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

Status unsupported_but(const std::string& field, const std::string& remedy) {
  return unimplemented("'" + field + "' is not supported here. Remedy: " + remedy)
      .with_detail({.reason = "unsupported_parameter", .field = field});
}

// A text, or a list of parts that have one.
Result<std::string> text_of(const Json& content, const std::string& field) {
  const Status expected = wrong(field, "a text, or a list of parts of type input_text");
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return expected;
  std::string text;
  for (const Json& part : content) {
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    if (type == "input_image" || type == "input_file" || type == "input_audio") {
      return unsupported_but(
          field + "[].type",
          "parts of type input_text: models here read text, and this is " + type.dump());
    }
    const bool has_text = type == "input_text" || type == "output_text" || type == "text";
    if (!has_text || !part.value("text", Json()).is_string()) return expected;
    // Answers that come back have the last two.
    OUTRIDER_RETURN_IF_ERROR(
        check_keys(part, field + "[].", {"type", "text", "annotations", "logprobs"}));
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

// Reads the items of a conversation one after the other.
class InputItems final {
 public:
  explicit InputItems(std::vector<ChatMessage>& messages) : messages_(messages) {}

  Status read(const Json& item, const std::string& field) {
    if (!item.is_object()) return wrong(field, "an object with a type");
    const Json type = item.value("type", Json("message"));
    if (type == "message") return read_message(item, field);
    if (type == "function_call") return read_call(item, field);
    if (type == "function_call_output") return read_result(item, field);
    if (type == "reasoning") return {};
    return unsupported_but(field + ".type",
                           "an item of type message, function_call, function_call_output or "
                           "reasoning, and this is " +
                               type.dump(-1, ' ', true));
  }

 private:
  Status read_message(const Json& item, const std::string& field) {
    OUTRIDER_RETURN_IF_ERROR(
        check_keys(item, field + ".", {"type", "role", "content", "id", "status", "phase"}));
    const std::optional<ChatRole> role = role_of(item.value("role", Json()));
    if (!role || role == ChatRole::kTool) {
      return wrong(field + ".role", "system, developer, user or assistant");
    }
    OUTRIDER_ASSIGN_OR_RETURN(std::string text,
                              text_of(item.value("content", Json()), field + ".content"));
    messages_.push_back({*role, std::move(text)});
    return {};
  }

  // Calls belong to the message before them, if that is the assistant's.
  Status read_call(const Json& item, const std::string& field) {
    OUTRIDER_RETURN_IF_ERROR(
        check_keys(item, field + ".", {"type", "call_id", "name", "arguments", "id", "status"}));
    for (const char* key : {"call_id", "name"}) {
      if (!item.value(key, Json()).is_string()) return wrong(field + "." + key, "a text");
    }
    OUTRIDER_ASSIGN_OR_RETURN(OrderedJson call,
                              earlier_call(item["call_id"], item["name"],
                                           item.value("arguments", Json()), field + ".arguments"));
    call_ids_.insert(item["call_id"].get<std::string>());
    if (messages_.empty() || messages_.back().role != ChatRole::kAssistant) {
      messages_.push_back({ChatRole::kAssistant, ""});
    }
    messages_.back().sent_along["tool_calls"].push_back(std::move(call));
    return {};
  }

  Status read_result(const Json& item, const std::string& field) {
    OUTRIDER_RETURN_IF_ERROR(
        check_keys(item, field + ".", {"type", "call_id", "output", "id", "status"}));
    const Json id = item.value("call_id", Json());
    if (!id.is_string() || !call_ids_.contains(id.get<std::string>())) {
      return wrong(field + ".call_id", "that of a function_call before it", id);
    }
    OUTRIDER_ASSIGN_OR_RETURN(std::string text,
                              text_of(item.value("output", Json()), field + ".output"));
    messages_.push_back(
        {ChatRole::kTool, std::move(text), {{"tool_call_id", id.get<std::string>()}}});
    return {};
  }

  std::vector<ChatMessage>& messages_;
  std::set<std::string> call_ids_;
};

}  // namespace

Status read_input(const Json& value, CompletionRequest& request) {
  if (value.is_string()) {
    request.messages.push_back({ChatRole::kUser, value.get<std::string>()});
    return {};
  }
  if (!value.is_array() || value.empty()) {
    return wrong("input", "a text, or a list of one item or more");
  }
  InputItems items(request.messages);
  for (std::size_t i = 0; i < value.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(items.read(value[i], "input[" + std::to_string(i) + "]"));
  }
  return {};
}

Status read_instructions(const Json& value, CompletionRequest& request) {
  if (!value.is_string()) return wrong("instructions", "a text");
  request.messages.insert(request.messages.begin(),
                          ChatMessage{ChatRole::kSystem, value.get<std::string>()});
  return {};
}

// Encrypted reasoning is for services that keep it, so a client that asks for it has no need of it
// here.
Status read_include(const Json& value, CompletionRequest& request) {
  if (!value.is_array()) return wrong("include", "a list of texts");
  for (const Json& each : value) {
    if (each == "message.output_text.logprobs") {
      request.wants_logprobs = true;
    } else if (each != "reasoning.encrypted_content") {
      return wrong("include",
                   "a list of message.output_text.logprobs and reasoning.encrypted_content", each);
    }
  }
  return {};
}

Status read_reasoning(const Json& value) {
  if (!value.is_object()) return wrong("reasoning", "an object");
  for (const auto& [key, each] : value.items()) {
    const bool asks_for_words = key == "summary" || key == "generate_summary";
    if (each.is_null() || asks_for_words || (key == "effort" && each == "medium")) continue;
    return unsupported_but("reasoning." + key,
                           "leave it out; what a model's template knows of the kind is set by "
                           "chat_template_kwargs");
  }
  return {};
}

Status check_response_request(const OrderedJson& body, CompletionRequest& request) {
  if (request.messages.empty() || request.messages.back().role == ChatRole::kAssistant) {
    return wrong("input", "ended by an item that is not the assistant's own");
  }
  const auto given = [&body](const char* field, OrderedJson otherwise) {
    OrderedJson value = body.value(field, OrderedJson());
    return value.is_null() ? std::move(otherwise) : value;
  };
  const OrderedJson nothing = nullptr;
  OrderedJson text = given("text", OrderedJson::object());
  if (text.value("format", nothing).is_null()) text["format"] = {{"type", "text"}};
  const TextOptions& options = request.params.text;
  request.repeated = {
      {"instructions", given("instructions", nothing)},
      {"max_output_tokens", options.max_tokens < 0 ? nothing : OrderedJson(options.max_tokens)},
      {"metadata", given("metadata", OrderedJson::object())},
      {"parallel_tool_calls", given("parallel_tool_calls", true)},
      {"previous_response_id", nullptr},
      {"reasoning", given("reasoning", OrderedJson::object())},
      {"store", false},
      {"temperature", given("temperature", options.choice.sampling.temperature)},
      {"text", std::move(text)},
      {"tool_choice", given("tool_choice", "auto")},
      {"tools", given("tools", OrderedJson::array())},
      {"top_p", given("top_p", options.choice.sampling.top_p)},
      {"truncation", "disabled"}};
  return {};
}

Status unsupported_in_response(std::string_view field) {
  struct Remedy {
    std::string_view field;
    const char* words;
  };
  constexpr const char* kSendAgain = "send its items again in 'input': answers are not kept here";
  constexpr std::array<Remedy, 4> kRemedies = {
      {{"previous_response_id", kSendAgain},
       {"conversation", kSendAgain},
       {"background", "\"stream\": true: an answer is made while its client waits"},
       {"prompt", "its text in 'instructions' or 'input': prompts are not kept here"}}};
  const auto* const found = std::ranges::find(kRemedies, field, &Remedy::field);
  return found == kRemedies.end() ? unsupported(field)
                                  : unsupported_but(std::string(field), found->words);
}

}  // namespace outrider
