// SPDX-License-Identifier: Apache-2.0
#include "common/openai/completion_request.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/json.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxStops = 4;

Status wrong(std::string_view field, const std::string& expected) {
  return invalid_argument("'" + std::string(field) + "' must be " + expected);
}

Status unsupported(std::string_view field) {
  return unimplemented("'" + std::string(field) + "' is not supported here; leave it out");
}

Status read_number(const Json& value, std::string_view field, double least, double most,
                   double& out) {
  const std::string range = "a number from " + Json(least).dump() + " to " + Json(most).dump();
  if (!value.is_number()) return wrong(field, range);
  const auto number = value.get<double>();
  if (!std::isfinite(number) || number < least || number > most) return wrong(field, range);
  out = number;
  return {};
}

Status read_integer(const Json& value, std::string_view field, std::int64_t least,
                    std::int64_t& out) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) ||
      value.get<std::int64_t>() < least) {
    return wrong(field, "a whole number from " + std::to_string(least));
  }
  out = value.get<std::int64_t>();
  return {};
}

Status read_bool(const Json& value, std::string_view field, bool& out) {
  if (!value.is_boolean()) return wrong(field, "true or false");
  out = value.get<bool>();
  return {};
}

Status read_stop(const Json& value, std::vector<std::string>& out) {
  const Json list = value.is_string() ? Json::array({value}) : value;
  const std::string expected = "a text, or up to " + std::to_string(kMaxStops) + " of them";
  if (!list.is_array() || list.size() > kMaxStops) return wrong("stop", expected);
  out.clear();
  for (const Json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      return wrong("stop", expected);
    }
    out.push_back(text.get<std::string>());
  }
  return {};
}

// A text, or a list of parts that are texts.
std::optional<std::string> content_of(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object() || part.value("type", Json()) != "text" || !part.contains("text") ||
        !part["text"].is_string()) {
      return std::nullopt;
    }
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

Status read_messages(const Json& value, std::vector<ChatMessage>& out) {
  if (!value.is_array() || value.empty()) return wrong("messages", "a list of messages");
  for (const Json& message : value) {
    const Json role = message.is_object() ? message.value("role", Json()) : Json();
    const std::optional<std::string> text =
        message.is_object() ? content_of(message.value("content", Json())) : std::nullopt;
    if (!text) return wrong("messages[].content", "a text, or a list of parts of type text");
    if (role == "system" || role == "developer") {
      out.push_back({ChatRole::kSystem, *text});
    } else if (role == "user") {
      out.push_back({ChatRole::kUser, *text});
    } else if (role == "assistant") {
      out.push_back({ChatRole::kAssistant, *text});
    } else {
      return wrong("messages[].role", "system, user or assistant");
    }
  }
  if (out.back().role != ChatRole::kUser) return wrong("messages", "ended by the user's message");
  return {};
}

Status read_stream_options(const Json& value, bool& usage) {
  if (!value.is_object()) return wrong("stream_options", "an object");
  for (const auto& [key, setting] : value.items()) {
    if (key != "include_usage") return unsupported("stream_options." + key);
    OUTRIDER_RETURN_IF_ERROR(read_bool(setting, "stream_options.include_usage", usage));
  }
  return {};
}

Status read_sampling(const std::string& key, const Json& value, CompletionParams& params,
                     bool& known) {
  double number = 0;
  std::int64_t whole = 0;
  known = true;
  if (key == "temperature") {
    OUTRIDER_RETURN_IF_ERROR(read_number(value, key, 0, 100, number));
    params.sampling.temperature = static_cast<float>(number);
  } else if (key == "top_p") {
    OUTRIDER_RETURN_IF_ERROR(read_number(value, key, 0, 1, number));
    params.sampling.top_p = static_cast<float>(number);
  } else if (key == "min_p") {
    OUTRIDER_RETURN_IF_ERROR(read_number(value, key, 0, 1, number));
    params.sampling.min_p = static_cast<float>(number);
  } else if (key == "top_k") {
    OUTRIDER_RETURN_IF_ERROR(read_integer(value, key, 0, whole));
    if (whole > std::numeric_limits<std::int32_t>::max()) return wrong(key, "less than 2^31");
    params.sampling.top_k = static_cast<std::int32_t>(whole);
  } else if (key == "seed") {
    OUTRIDER_RETURN_IF_ERROR(
        read_integer(value, key, std::numeric_limits<std::int64_t>::min(), whole));
    params.seed = static_cast<std::uint64_t>(whole);
  } else if (key == "max_tokens" || key == "max_completion_tokens") {
    OUTRIDER_RETURN_IF_ERROR(read_integer(value, key, 1, params.max_tokens));
  } else if (key == "stop") {
    OUTRIDER_RETURN_IF_ERROR(read_stop(value, params.stop));
  } else if (key == "speculation") {
    if (value == true && !params.speculation) return unsupported(key);
    OUTRIDER_RETURN_IF_ERROR(read_bool(value, key, params.speculation));
  } else {
    known = false;
  }
  return {};
}

// Says nothing about the answer, or what it says is what happens anyway.
bool changes_nothing(const std::string& key, const Json& value) {
  constexpr std::array kLabels = {"model", "user", "metadata", "store", "safety_identifier"};
  for (const char* label : kLabels) {
    if (key == label) return true;
  }
  if (key == "n" || key == "best_of") return value == 1;
  if (key == "presence_penalty" || key == "frequency_penalty") return value == 0;
  if (key == "logprobs" || key == "echo") return value == false;
  if (key == "tools") return value.is_array() && value.empty();
  if (key == "tool_choice") return value == "none";
  if (key == "logit_bias") return value.is_object() && value.empty();
  if (key == "response_format") return value == Json{{"type", "text"}};
  return false;
}

Status read_field(const std::string& key, const Json& value, CompletionRequest& request) {
  if (value.is_null()) return {};
  if (key == "messages" && request.is_chat) return read_messages(value, request.messages);
  if (key == "prompt" && !request.is_chat) {
    if (!value.is_string()) return wrong("prompt", "a text");
    request.prompt = value.get<std::string>();
    return {};
  }
  if (key == "stream") return read_bool(value, key, request.stream);
  if (key == "stream_options") return read_stream_options(value, request.stream_usage);
  bool known = false;
  OUTRIDER_RETURN_IF_ERROR(read_sampling(key, value, request.params, known));
  if (known || changes_nothing(key, value)) return {};
  return unsupported(key);
}

}  // namespace

Result<CompletionRequest> parse_completion(std::string_view body, bool is_chat,
                                           const CompletionParams& defaults) {
  const Result<Json> json = parse_json(body, "the body");
  if (!json.ok()) return invalid_argument(json.status().message());
  if (!json->is_object()) return invalid_argument("the body must be a JSON object");
  CompletionRequest request{.is_chat = is_chat, .messages = {}, .prompt = {}, .params = defaults};
  for (const auto& [key, value] : json->items()) {
    OUTRIDER_RETURN_IF_ERROR(read_field(key, value, request));
  }
  if (is_chat && request.messages.empty()) return wrong("messages", "there");
  if (!is_chat && !json->contains("prompt")) return wrong("prompt", "there");
  return request;
}

Result<EncodedPrompt> encode_request(const Tokenizer& tokenizer, const CompletionRequest& request,
                                     std::string_view chat_template) {
  if (!request.is_chat) return encode_prompt(tokenizer, request.prompt, "none");
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
                            ChatTemplate::choose(tokenizer, chat_template));
  EncodedPrompt prompt;
  OUTRIDER_ASSIGN_OR_RETURN(prompt.ids, chat.encode_chat(tokenizer, request.messages));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end_of_turn, chat.end_of_turn(tokenizer));
  prompt.stop_ids = {end_of_turn};
  return prompt;
}

}  // namespace outrider
