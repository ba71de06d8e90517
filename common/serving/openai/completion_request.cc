// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "common/base/json.h"
#include "common/serving/conversation/stop_strings.h"
#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/idle_fields.h"

namespace outrider {
namespace {

// Any 64 bits, signed or not; -1 asks for a fresh one, as null does.
Status read_seed(const Json& value, TextOptions& text) {
  std::uint64_t& seed = text.choice.seed;
  text.draws_seed = value.is_null() || (!value.is_number_unsigned() && value == -1);
  if (text.draws_seed) return {};
  if (value.is_number_unsigned()) {
    seed = value.get<std::uint64_t>();
  } else if (value.is_number_integer()) {
    seed = static_cast<std::uint64_t>(value.get<std::int64_t>());
  } else {
    std::int64_t whole = 0;
    if (!read_integer(value, "seed", std::numeric_limits<std::int64_t>::min(), whole).ok()) {
      return wrong("seed", "a whole number from -2^63 to 2^64 - 1", value);
    }
    seed = static_cast<std::uint64_t>(whole);
  }
  return {};
}

// Empty texts are passed over: they would end every answer before it begins.
Status read_stop(const Json& value, std::vector<std::string>& out) {
  const Json list = value.is_string() ? Json::array({value}) : value;
  const std::string expected =
      "a text, or a list of up to " + std::to_string(StopStrings::kMaxStops) + " texts";
  if (!list.is_array()) return wrong("stop", expected);
  out.clear();
  for (const Json& text : list) {
    if (!text.is_string()) return wrong("stop", expected);
    if (!text.get_ref<const std::string&>().empty()) out.push_back(text.get<std::string>());
  }
  if (out.size() > StopStrings::kMaxStops) return wrong("stop", expected);
  const Status usable = StopStrings::create(out).status();
  return usable.ok() ? usable : usable.with_detail({.reason = "invalid_value", .field = "stop"});
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
Status read_template_variables(const Json& value, nlohmann::ordered_json& out) {
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
    OUTRIDER_RETURN_IF_ERROR(read_integer(value, key, -1, whole));
    if (whole > std::numeric_limits<std::int32_t>::max()) return wrong(key, "less than 2^31");
    params.text.choice.sampling.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(whole, 0));
  } else if (key == "seed") {
    OUTRIDER_RETURN_IF_ERROR(read_seed(value, params.text));
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

// How a plain prompt becomes tokens. In chats the template decides, and only that can be asked for.
Status read_raw(const Json& value, const std::string& key, bool& out,
                const CompletionRequest& request) {
  bool asked = false;
  OUTRIDER_RETURN_IF_ERROR(read_bool(value, key, asked));
  if (request.is_chat && asked) return unsupported(key);
  out = asked;
  return {};
}

// llama.cpp's names.
Status read_reasoning_format(const Json& value, std::optional<bool>& reads) {
  if (value != "none" && value != "auto" && value != "deepseek") {
    return wrong("reasoning_format", "auto, deepseek or none", value);
  }
  reads = value != "none";
  return {};
}

// Templates write a tool's keys in the client's order, which sorted objects do not keep.
Status read_tool_use(std::string_view body, const Json& json, ToolUse& use) {
  if (const Json tools = json.value("tools", Json()); !tools.is_null()) {
    const auto ordered = nlohmann::ordered_json::parse(body, nullptr, false);
    OUTRIDER_RETURN_IF_ERROR(read_tools(ordered["tools"], use));
  }
  return read_tool_choice(json.value("tool_choice", Json()), use);
}

Status read_field(const std::string& key, const Json& value, CompletionRequest& request) {
  if (value.is_null() && key != "seed") return {};
  if (key == "messages" && request.is_chat) return read_messages(value, request.messages);
  if (key == "chat_template_kwargs" && request.is_chat) {
    return read_template_variables(value, request.template_variables);
  }
  if (request.is_chat && (key == "tools" || key == "tool_choice")) return {};  // read_tool_use()
  if (request.is_chat && key == "parallel_tool_calls") {
    return read_bool(value, key, request.tool_use.in_parallel);
  }
  if (request.is_chat && key == "include_reasoning") {
    return read_bool(value, key, request.shows_reasoning);
  }
  if (request.is_chat && key == "reasoning_format") {
    return read_reasoning_format(value, request.reads_reasoning);
  }
  if (key == "prompt" && !request.is_chat) return read_prompt(value, request.prompt);
  if (key == "parse_special") return read_raw(value, key, request.raw.parse_special, request);
  if (key == "add_special_tokens") return read_raw(value, key, request.raw.add_special, request);
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
  if (known || asks_for_nothing(key, value)) return {};
  if (!cannot_change_text(key)) return unsupported(key);
  request.ignored.push_back(key);
  return {};
}

}  // namespace

Result<CompletionRequest> parse_completion(std::string_view body, bool is_chat,
                                           const CompletionParams& defaults) {
  const Result<Json> json = parse_body(body);
  if (!json.ok()) return json.status();
  CompletionRequest request{.is_chat = is_chat,
                            .messages = {},
                            .template_variables = {},
                            .prompt = {},
                            .raw = {},
                            .params = defaults};
  for (const auto& [key, value] : json->items()) {
    if (const Status read = read_field(key, value, request); !read.ok()) {
      const bool told = !read.detail().reason.empty();
      return told ? read : read.with_detail({.reason = "invalid_value", .field = key});
    }
  }
  if (Slo& slo = request.params.wish.slo; slo.unverified && !request.stream) {
    if (!json->value("slo", Json()).is_null()) {
      return invalid_argument(
                 "'slo.unverified' is an event of a stream, before the rest. Remedy: \"stream\": "
                 "true")
          .with_detail({.reason = "invalid_value", .field = "slo.unverified"});
    }
    slo = {};  // the program's default
  }
  const Json old_length = json->value("max_tokens", Json());
  const Json length = json->value("max_completion_tokens", Json());
  if (!old_length.is_null() && !length.is_null() && old_length != length) {
    return invalid_argument("'max_tokens' " + old_length.dump() + " and 'max_completion_tokens' " +
                            length.dump() + " say two things. Remedy: max_completion_tokens alone")
        .with_detail({.reason = "invalid_value", .field = "max_completion_tokens"});
  }
  if (is_chat) {
    OUTRIDER_RETURN_IF_ERROR(read_tool_use(body, *json, request.tool_use));
  }
  if (is_chat && request.messages.empty()) return missing("messages");
  if (!is_chat && json->value("prompt", Json()).is_null()) return missing("prompt");
  return request;
}

}  // namespace outrider
