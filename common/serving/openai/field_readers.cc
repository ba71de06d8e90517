// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/field_readers.h"

#include <algorithm>
#include <array>
#include <limits>

#include "common/engine/text/token_ids.h"
#include "common/serving/conversation/bad_words.h"
#include "common/serving/conversation/stop_strings.h"
#include "common/serving/openai/body_fields.h"

namespace outrider {
namespace {

Status read_one_prompt(const Json& value, PromptText& out) {
  const std::string expected = "a text, a list of ids of tokens, or a list of either";
  if (value.is_string()) {
    out.text = value.get<std::string>();
    return {};
  }
  if (!value.is_array() || value.empty()) return wrong("prompt", expected);
  Result<std::vector<TokenId>> ids = token_ids_of(value, "prompt");
  if (!ids.ok()) return ids.status().with_detail({.reason = "invalid_value", .field = "prompt"});
  out.ids = *std::move(ids);
  return {};
}

}  // namespace

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
Status read_stop(const Json& value, std::vector<std::string>& out, std::string_view field) {
  const Json list = value.is_string() ? Json::array({value}) : value;
  const std::string expected =
      "a text, or a list of up to " + std::to_string(StopStrings::kMaxStops) + " texts";
  if (!list.is_array()) return wrong(field, expected);
  out.clear();
  for (const Json& text : list) {
    if (!text.is_string()) return wrong(field, expected);
    if (!text.get_ref<const std::string&>().empty()) out.push_back(text.get<std::string>());
  }
  if (out.size() > StopStrings::kMaxStops) return wrong(field, expected);
  const Status usable = StopStrings::create(out).status();
  if (usable.ok()) return usable;
  return usable.with_detail({.reason = "invalid_value", .field = std::string(field)});
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

Status read_own_extras(const Json& value, AnswerExtras& extras) {
  constexpr std::string_view kField = "outrider";
  if (!value.is_object() && !value.is_boolean()) return wrong(kField, "true, false or an object");
  if (!value.is_object()) return read_bool(value, kField, extras.figures);
  for (const auto& [key, setting] : value.items()) {
    const std::string name = std::string(kField) + "." + key;
    if (key == "figures") {
      OUTRIDER_RETURN_IF_ERROR(read_bool(setting, name, extras.figures));
    } else if (key == "record") {
      OUTRIDER_RETURN_IF_ERROR(read_bool(setting, name, extras.record));
    } else {
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

Status read_prompts(const Json& value, std::vector<PromptText>& out) {
  // A list of numbers is one prompt.
  const bool is_list = value.is_array() && !value.empty() && !value.front().is_number();
  const Json list = is_list ? value : Json::array({value});
  if (list.size() > kMaxChoices) {
    return wrong("prompt", "a list of up to " + std::to_string(kMaxChoices) + " prompts");
  }
  for (const Json& each : list) OUTRIDER_RETURN_IF_ERROR(read_one_prompt(each, out.emplace_back()));
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
Status read_raw(const Json& value, std::string_view key, bool& out,
                const CompletionRequest& request) {
  bool asked = false;
  OUTRIDER_RETURN_IF_ERROR(read_bool(value, key, asked));
  if (request.is_chat() && asked) return unsupported(key);
  out = asked;
  return {};
}

Status read_service_tier(const Json& value, ServiceTier& out) {
  const auto tier =
      value.is_string() ? parse_name<ServiceTier>(value.get<std::string>()) : std::nullopt;
  if (!tier && value != "auto") return wrong("service_tier", "auto, default, flex or priority");
  out = tier.value_or(ServiceTier::kDefault);
  return {};
}

Status read_speculation(const Json& value, CompletionParams& params) {
  if (value == true && !params.speculation) return unsupported("speculation");
  return read_bool(value, "speculation", params.speculation);
}

// -1 is as 0: all tokens.
Status read_top_k(const Json& value, SamplingParams& sampling) {
  std::int64_t whole = 0;
  OUTRIDER_RETURN_IF_ERROR(read_integer(value, "top_k", -1, whole));
  if (whole > std::numeric_limits<std::int32_t>::max()) return wrong("top_k", "less than 2^31");
  sampling.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(whole, 0));
  return {};
}

Status read_logit_bias(const Json& value, std::vector<LogitBias>& out) {
  const std::string expected = "an object of up to " + std::to_string(ChoiceSettings::kMaxBiases) +
                               " numbers from -100 to 100 by the ids of tokens";
  if (!value.is_structured() || value.size() > ChoiceSettings::kMaxBiases) {
    return wrong("logit_bias", expected);
  }
  for (const auto& [key, each] : value.items()) {
    const bool is_pair = value.is_array() && each.is_array() && each.size() == 2;
    if (value.is_array() && !is_pair) return wrong("logit_bias", expected);
    const Json id = is_pair ? each[0] : Json::parse(key, nullptr, false);
    LogitBias bias;
    double number = 0;
    std::int64_t token = 0;
    if (id.is_discarded() || !read_integer(id, "logit_bias", 0, token).ok() ||
        token > std::numeric_limits<TokenId>::max()) {
      return wrong("logit_bias", expected);
    }
    OUTRIDER_RETURN_IF_ERROR(
        read_number(is_pair ? each[1] : each, "logit_bias." + id.dump(), -100, 100, number));
    bias.token = static_cast<TokenId>(token);
    bias.bias = static_cast<float>(number);
    out.push_back(bias);
  }
  return {};
}

Status read_stop_tokens(const Json& value, std::vector<TokenId>& out) {
  Result<std::vector<TokenId>> ids = token_ids_of(value, "stop_token_ids");
  if (!ids.ok() || ids->size() > StopStrings::kMaxStops) {
    return wrong("stop_token_ids",
                 "a list of up to " + std::to_string(StopStrings::kMaxStops) + " ids of tokens");
  }
  out = *std::move(ids);
  return {};
}

Status read_bad_words(const Json& value, std::vector<std::string>& out) {
  const std::string expected =
      "a list of up to " + std::to_string(ChoiceSettings::kMaxBadWords) + " texts";
  if (!value.is_array() || value.size() > ChoiceSettings::kMaxBadWords) {
    return wrong("bad_words", expected);
  }
  for (const Json& word : value) {
    if (!word.is_string() || word == "") return wrong("bad_words", expected);
    out.push_back(word.get<std::string>());
  }
  return {};
}

Status check_named_tokens(const Tokenizer& tokenizer, const TextOptions& text) {
  const auto refused = [](const Status& status, const char* field) {
    return status.with_detail({.reason = "invalid_value", .field = field});
  };
  const auto words = bad_word_tokens(tokenizer, text.bad_words);
  if (!words.ok()) return refused(words.status(), "bad_words");
  for (const TokenId id : text.stop_token_ids) {
    if (!tokenizer.contains(id)) {
      return wrong("stop_token_ids", "of ids that the tokenizer has", Json(id));
    }
  }
  if (text.max_tokens >= 0 && text.choice.settings.min_tokens > text.max_tokens) {
    return wrong("min_tokens", "at most as many as max_tokens",
                 Json(text.choice.settings.min_tokens));
  }
  // The other settings were read within their bounds.
  const Status valid = validate(text.choice.settings, tokenizer.vocab_size());
  return valid.ok() ? valid : refused(valid, "logit_bias");
}

// llama.cpp's names.
Status read_reasoning_format(const Json& value, std::optional<bool>& reads) {
  if (value != "none" && value != "auto" && value != "deepseek") {
    return wrong("reasoning_format", "auto, deepseek or none", value);
  }
  reads = value != "none";
  return {};
}

}  // namespace outrider
