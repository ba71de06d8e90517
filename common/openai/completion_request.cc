// SPDX-License-Identifier: Apache-2.0
#include "common/openai/completion_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
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

// Names the value too, if it is short.
Status wrong(std::string_view field, const std::string& expected, const Json& value) {
  constexpr std::size_t kShort = 40;
  const std::string shown = value.is_primitive() ? value.dump(-1, ' ', true) : "";
  if (shown.empty() || shown.size() > kShort) return wrong(field, expected);
  return wrong(field, expected + ", and is " + shown);
}

Status unsupported(std::string_view field) {
  return unimplemented("'" + std::string(field) + "' is not supported here; leave it out");
}

Status read_number(const Json& value, std::string_view field, double least, double most,
                   double& out) {
  const std::string range = "a number from " + Json(least).dump() + " to " + Json(most).dump();
  const auto number = value.is_number() ? value.get<double>() : std::nan("");
  if (!std::isfinite(number) || number < least || number > most) return wrong(field, range, value);
  out = number;
  return {};
}

// 16.0 counts as whole, because some clients have one type of number only.
Status read_integer(const Json& value, std::string_view field, std::int64_t least,
                    std::int64_t& out) {
  constexpr double kBeyond = 9007199254740992;  // 2^53: every whole number below it is exact
  const auto number = value.is_number() ? value.get<double>() : std::nan("");
  if (number != std::floor(number) || number < static_cast<double>(least) || number >= kBeyond) {
    return wrong(field, "a whole number from " + std::to_string(least) + ", less than 2^53", value);
  }
  out = static_cast<std::int64_t>(number);
  return {};
}

// Any 64 bits, signed or not.
Status read_seed(const Json& value, std::uint64_t& out) {
  if (value.is_number_unsigned()) {
    out = value.get<std::uint64_t>();
  } else if (value.is_number_integer()) {
    out = static_cast<std::uint64_t>(value.get<std::int64_t>());
  } else {
    std::int64_t whole = 0;
    if (!read_integer(value, "seed", std::numeric_limits<std::int64_t>::min(), whole).ok()) {
      return wrong("seed", "a whole number from -2^63 to 2^64 - 1", value);
    }
    out = static_cast<std::uint64_t>(whole);
  }
  return {};
}

Status read_bool(const Json& value, std::string_view field, bool& out) {
  if (!value.is_boolean()) return wrong(field, "true or false", value);
  out = value.get<bool>();
  return {};
}

Status read_stop(const Json& value, std::vector<std::string>& out) {
  const Json list = value.is_string() ? Json::array({value}) : value;
  const std::string expected =
      "a text, or up to " + std::to_string(kMaxStops) + " of them, none of them empty";
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

// Refuses an object with a key that is not read.
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
    OUTRIDER_RETURN_IF_ERROR(check_keys(part, "messages[].content[].", {"type", "text"}));
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

Status read_messages(const Json& value, std::vector<ChatMessage>& out) {
  if (!value.is_array() || value.empty()) {
    return wrong("messages", "a list of one message or more");
  }
  for (const Json& message : value) {
    if (!message.is_object()) return wrong("messages[]", "an object with role and content");
    OUTRIDER_RETURN_IF_ERROR(check_keys(message, "messages[].", {"role", "content"}));
    const Json role = message.value("role", Json());
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, content_of(message.value("content", Json())));
    if (role == "system" || role == "developer") {
      out.push_back({ChatRole::kSystem, text});
    } else if (role == "user") {
      out.push_back({ChatRole::kUser, text});
    } else if (role == "assistant") {
      out.push_back({ChatRole::kAssistant, text});
    } else {
      return wrong("messages[].role", "system, user or assistant");
    }
  }
  if (out.back().role == ChatRole::kAssistant) {
    return wrong("messages", "ended by a message that is not the assistant's own");
  }
  return {};
}

Status read_stream_options(const Json& value, AnswerExtras& extras) {
  if (!value.is_object()) return wrong("stream_options", "an object");
  for (const auto& [key, setting] : value.items()) {
    const std::string name = "stream_options." + key;
    if (setting.is_null()) continue;
    if (key == "include_usage") {
      OUTRIDER_RETURN_IF_ERROR(read_bool(setting, name, extras.usage));
    } else if (key == "continuous_usage_stats") {
      OUTRIDER_RETURN_IF_ERROR(read_bool(setting, name, extras.usage_so_far));
    } else if (key != "include_obfuscation" || setting != false) {
      return unsupported(name);
    }
  }
  return {};
}

// Variables of the chat template, such as enable_thinking. Those that the request's other fields or
// the model set are refused.
Status read_template_variables(const Json& value, Json& out) {
  constexpr std::string_view kField = "chat_template_kwargs";
  if (!value.is_object()) return wrong(kField, "an object of the chat template's variables");
  for (const auto& [name, setting] : value.items()) {
    constexpr std::array kTaken = {"messages",  "tools",    "documents", "add_generation_prompt",
                                   "bos_token", "eos_token"};
    if (std::ranges::find(kTaken, name) != kTaken.end()) {
      return unsupported(std::string(kField) + "." + name);
    }
  }
  out = value;
  return {};
}

// A text, or a list of one text.
Status read_prompt(const Json& value, std::string& out) {
  const Json& one = value.is_array() && value.size() == 1 ? value.front() : value;
  if (!one.is_string()) return wrong("prompt", "a text, or a list of one text");
  out = one.get<std::string>();
  return {};
}

Status read_sampling(const std::string& key, const Json& value, CompletionParams& params,
                     bool& known) {
  double number = 0;
  std::int64_t whole = 0;
  known = true;
  if (key == "temperature") {
    OUTRIDER_RETURN_IF_ERROR(read_number(value, key, 0, 100, number));
    params.text.choice.sampling.temperature = static_cast<float>(number);
  } else if (key == "top_p") {
    OUTRIDER_RETURN_IF_ERROR(read_number(value, key, 0, 1, number));
    params.text.choice.sampling.top_p = static_cast<float>(number);
  } else if (key == "min_p") {
    OUTRIDER_RETURN_IF_ERROR(read_number(value, key, 0, 1, number));
    params.text.choice.sampling.min_p = static_cast<float>(number);
  } else if (key == "top_k") {
    OUTRIDER_RETURN_IF_ERROR(read_integer(value, key, 0, whole));
    if (whole > std::numeric_limits<std::int32_t>::max()) return wrong(key, "less than 2^31");
    params.text.choice.sampling.top_k = static_cast<std::int32_t>(whole);
  } else if (key == "seed") {
    OUTRIDER_RETURN_IF_ERROR(read_seed(value, params.text.choice.seed));
  } else if (key == "max_tokens" || key == "max_completion_tokens") {
    OUTRIDER_RETURN_IF_ERROR(read_integer(value, key, 1, params.text.max_tokens));
  } else if (key == "stop") {
    OUTRIDER_RETURN_IF_ERROR(read_stop(value, params.text.stop));
  } else if (key == "ignore_eos") {
    OUTRIDER_RETURN_IF_ERROR(read_bool(value, key, params.text.ignore_eos));
  } else if (key == "service_tier") {
    const auto tier =
        value.is_string() ? parse_name<ServiceTier>(value.get<std::string>()) : std::nullopt;
    if (!tier && value != "auto") return wrong(key, "auto, default, flex or priority");
    params.text.service_tier = tier.value_or(ServiceTier::kDefault);
  } else if (key == "speculation") {
    if (value == true && !params.speculation) return unsupported(key);
    OUTRIDER_RETURN_IF_ERROR(read_bool(value, key, params.speculation));
  } else {
    known = false;
  }
  return {};
}

// {"time_ms": 800, "unverified": "allow"}
Status read_slo(const Json& value, Slo& slo) {
  if (!value.is_object() || value.empty()) {
    return wrong("slo", std::string("an object with ") + kSloNames);
  }
  slo = {};
  for (const auto& [key, setting] : value.items()) {
    const std::string name = "slo." + key;
    std::optional<double>* const place = find_objective(slo, key);
    if (key == "strict") {
      OUTRIDER_RETURN_IF_ERROR(read_bool(setting, name, slo.strict));
    } else if (key == "unverified") {
      if (setting != "allow") return wrong(name, "\"allow\", or left out");
      slo.unverified = true;
    } else if (place == nullptr) {
      return unsupported(name);
    } else {
      OUTRIDER_RETURN_IF_ERROR(read_number(setting, name, 0, kMaxSloMs, place->emplace()));
    }
  }
  if (!slo.asks()) return wrong("slo", std::string("an object with ") + kSloNames);
  return check_slo(slo);
}

// Fields that cannot change the text, whatever their value.
constexpr std::array kIgnored = {"user",
                                 "metadata",
                                 "store",
                                 "safety_identifier",
                                 "prompt_cache_key",
                                 "prompt_cache_retention",
                                 "parallel_tool_calls",
                                 "priority",
                                 "request_id"};

// Whether the value requests the default behaviour.
bool says_nothing_new(const std::string& key, const Json& value) {
  if (key == "n" || key == "best_of" || key == "repetition_penalty" || key == "length_penalty") {
    return value == 1;
  }
  if (key == "presence_penalty" || key == "frequency_penalty" || key == "min_tokens" ||
      key == "top_logprobs") {
    return value == 0;
  }
  if (key == "logprobs" || key == "echo" || key == "use_beam_search") return value == false;
  if (key == "skip_special_tokens" || key == "add_generation_prompt") return value == true;
  if (key == "tools" || key == "functions" || key == "stop_token_ids") {
    return value.is_array() && value.empty();
  }
  if (key == "tool_choice" || key == "function_call") return value == "none";
  if (key == "suffix") return value == "";
  if (key == "logit_bias") return value.is_object() && value.empty();
  if (key == "response_format") return value == Json{{"type", "text"}};
  if (key == "modalities") return value == Json::array({"text"});
  return false;
}

Status read_field(const std::string& key, const Json& value, CompletionRequest& request) {
  if (value.is_null()) return {};
  if (key == "messages" && request.is_chat) return read_messages(value, request.messages);
  if (key == "chat_template_kwargs" && request.is_chat) {
    return read_template_variables(value, request.template_variables);
  }
  if (key == "prompt" && !request.is_chat) return read_prompt(value, request.prompt);
  if (key == "stream") return read_bool(value, key, request.stream);
  if (key == "stream_options") return read_stream_options(value, request.extras);
  if (key == "outrider") return read_bool(value, key, request.extras.figures);
  if (key == "model") {
    if (!value.is_string()) return wrong(key, "a text");
    request.model = value.get<std::string>();
    return {};
  }
  if (key == "slo") return read_slo(value, request.params.wish.slo);
  bool known = false;
  OUTRIDER_RETURN_IF_ERROR(read_sampling(key, value, request.params, known));
  if (known || says_nothing_new(key, value)) return {};
  if (std::ranges::find(kIgnored, key) == kIgnored.end()) return unsupported(key);
  request.ignored.push_back(key);
  return {};
}

}  // namespace

Result<CompletionRequest> parse_completion(std::string_view body, bool is_chat,
                                           const CompletionParams& defaults) {
  const Result<Json> json = parse_json(body, "the body");
  if (!json.ok()) return invalid_argument(json.status().message());
  if (!json->is_object()) return invalid_argument("the body must be a JSON object");
  CompletionRequest request{.is_chat = is_chat,
                            .messages = {},
                            .template_variables = {},
                            .prompt = {},
                            .params = defaults};
  for (const auto& [key, value] : json->items()) {
    OUTRIDER_RETURN_IF_ERROR(read_field(key, value, request));
  }
  if (Slo& slo = request.params.wish.slo; slo.unverified && !request.stream) {
    if (!json->value("slo", Json()).is_null()) {
      return invalid_argument(
          "'slo.unverified' is an event of a stream, before the rest. Remedy: \"stream\": true");
    }
    slo = {};  // the program's default
  }
  const Json old_length = json->value("max_tokens", Json());
  const Json length = json->value("max_completion_tokens", Json());
  if (!old_length.is_null() && !length.is_null() && old_length != length) {
    return invalid_argument("'max_tokens' " + old_length.dump() + " and 'max_completion_tokens' " +
                            length.dump() + " say two things. Remedy: max_completion_tokens alone");
  }
  if (is_chat && request.messages.empty()) return wrong("messages", "there");
  if (!is_chat && !json->contains("prompt")) return wrong("prompt", "there");
  return request;
}

Result<EncodedPrompt> encode_request(const Tokenizer& tokenizer, const CompletionRequest& request,
                                     const ChatSource& source, std::string_view chat_template,
                                     Position context) {
  if (!request.is_chat) {
    OUTRIDER_RETURN_IF_ERROR(check_text_fits(tokenizer, request.prompt.size(), context));
  }
  if (!request.is_chat) return encode_prompt(tokenizer, source, request.prompt, "none");
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(source, chat_template));
  return encode_messages(tokenizer, chat, request.messages, request.template_variables, context);
}

}  // namespace outrider
