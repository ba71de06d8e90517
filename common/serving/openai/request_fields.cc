// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/request_fields.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "common/serving/conversation/stop_strings.h"
#include "common/serving/openai/body_fields.h"
#include "common/serving/openai/chat_fields.h"
#include "common/serving/openai/field_readers.h"
#include "common/serving/openai/form_fields.h"
#include "common/serving/openai/message_fields.h"
#include "common/serving/openai/response_fields.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Request = CompletionRequest;
using enum FieldUse;

template <typename Number>
RequestField number(std::string_view name, double least, double most, Number& (*place)(Request&),
                    std::string_view description) {
  const auto read = [=](const Json& value, Request& request) -> Status {
    double given = 0;
    OUTRIDER_RETURN_IF_ERROR(read_number(value, name, least, most, given));
    place(request) = static_cast<Number>(given);
    return {};
  };
  return {.name = name,
          .schema = {{"type", "number"}, {"minimum", least}, {"maximum", most}},
          .description = description,
          .read = read};
}

RequestField whole(std::string_view name, std::int64_t least, std::int64_t& (*place)(Request&),
                   std::string_view description) {
  const auto read = [=](const Json& value, Request& request) {
    return read_integer(value, name, least, place(request));
  };
  return {.name = name,
          .schema = {{"type", "integer"}, {"minimum", least}},
          .description = description,
          .read = read};
}

RequestField yes_or_no(std::string_view name, bool& (*place)(Request&),
                       std::string_view description) {
  const auto read = [=](const Json& value, Request& request) {
    return read_bool(value, name, place(request));
  };
  return {.name = name, .schema = {{"type", "boolean"}}, .description = description, .read = read};
}

RequestField other(std::string_view name, OrderedJson schema, std::string_view description,
                   Status (*read)(const Json&, Request&)) {
  return {.name = name, .schema = std::move(schema), .description = description, .read = read};
}

RequestField logprobs(std::string_view name, std::string_view description) {
  const auto read = [=](const Json& value, Request& request) -> Status {
    if (value == false) return {};
    std::int64_t most = 0;
    OUTRIDER_RETURN_IF_ERROR(read_integer(value, name, 0, most));
    if (most > kMaxTopLogprobs) {
      return wrong(name, "at most " + std::to_string(kMaxTopLogprobs), value);
    }
    request.params.text.top_logprobs = static_cast<std::uint32_t>(most);
    return {};
  };
  return {.name = name,
          .schema = {{"type", "integer"}, {"minimum", 0}, {"maximum", kMaxTopLogprobs}},
          .description = description,
          .read = read};
}

RequestField only(FieldUse use, RequestField field) {
  field.use = use;
  return field;
}

OrderedJson type(const char* name) {
  return {{"type", name}};
}

OrderedJson one_of(std::initializer_list<const char*> values) {
  OrderedJson list = OrderedJson::array();
  for (const char* value : values) list.push_back(value);
  return {{"enum", std::move(list)}};
}

// For fields that parse_completion() reads together with others.
Status read_later(const Json& /*value*/, Request& /*request*/) {
  return {};
}

Status read_model(const Json& value, Request& request) {
  if (!value.is_string()) return wrong("model", "a text");
  request.model = value.get<std::string>();
  return {};
}

std::vector<RequestField> prompt_fields() {
  return {
      only(kChat, other("messages", {{"type", "array"}, {"minItems", 1}},
                        "The conversation so far. A message has a role (system, developer, user, "
                        "assistant, tool) and content, a text or parts of type text. An "
                        "assistant's may have tool_calls, a tool's has tool_call_id. It must be "
                        "there.",
                        [](const Json& value, Request& request) {
                          return read_messages(value, request.messages);
                        })),
      only(kResponse,
           other("input", {{"type", OrderedJson::array({"string", "array"})}},
                 "The conversation so far, a text or items: messages (with parts of type "
                 "input_text or output_text), function_call, function_call_output, reasoning, "
                 "which is passed over. It must be there.",
                 read_input)),
      only(kResponse, other("instructions", type("string"), "A system message before all others.",
                            read_instructions)),
      only(kMessage,
           other("messages", {{"type", "array"}, {"minItems", 1}},
                 "The conversation so far. A message has a role (user, assistant) and content, a "
                 "text or blocks of type text; an assistant's also of tool_use and of thinking, "
                 "which is passed over; a user's also of tool_result, which begins with Error: "
                 "where is_error is true. It must be there.",
                 read_message_list)),
      only(kMessage, other("system", {{"type", OrderedJson::array({"string", "array"})}},
                           "A system message before all others, a text or blocks of type text.",
                           read_system)),
      only(kCompletion, other("prompt", {{"type", OrderedJson::array({"string", "array"})}},
                              "The text to complete, or ids of tokens, or a list of either, each "
                              "of which is answered. It must be there.",
                              [](const Json& value, Request& request) {
                                return read_prompts(value, request.prompts);
                              })),
      only(kCompletion,
           other(
               "suffix", type("string"),
               "The text behind the answer, which then stands between prompt and suffix, where the "
               "tokenizer has marks for that. Special tokens that both spell out stay text.",
               [](const Json& value, Request& request) {
                 if (!value.is_string()) return wrong("suffix", "a text");
                 request.suffix = value.get<std::string>();
                 return Status();
               })),
      other("model", type("string"),
            "Any name; NAME@LEVEL chooses a level of an elastic model, NAME@auto by its slo.",
            read_model),
      only(kConversation, other("chat_template_kwargs", type("object"),
                                "Further variables of the chat template, such as enable_thinking.",
                                [](const Json& value, Request& request) {
                                  return read_template_variables(value, request.template_variables);
                                })),
      only(kChoices,
           other(
               "parse_special", type("boolean"),
               "Whether special tokens that a plain prompt spells out become these tokens; true. A "
               "chat's template decides that.",
               [](const Json& value, Request& request) {
                 return read_raw(value, "parse_special", request.raw.parse_special, request);
               })),
      only(kChoices, other("add_special_tokens", type("boolean"),
                           "Whether a plain prompt gets the tokens that frame a text, such as <s>; "
                           "true. A chat's "
                           "template decides that.",
                           [](const Json& value, Request& request) {
                             return read_raw(value, "add_special_tokens", request.raw.add_special,
                                             request);
                           })),
  };
}

std::vector<RequestField> tool_fields() {
  return {
      only(kChat,
           other("tools", {{"type", "array"}, {"maxItems", kMaxTools}},
                 "Functions that the answer may call: {\"type\": \"function\", \"function\": "
                 "{\"name\", \"description\", \"parameters\", \"strict\"}}. The chat template must "
                 "write "
                 "tools.",
                 read_later)),
      only(kChat, other("tool_choice", {{"type", OrderedJson::array({"string", "object"})}},
                        "Whether the answer may call tools: auto, none; required, or {\"type\": "
                        "\"function\", \"function\": {\"name\"}}: it is calls, whose arguments "
                        "fit the tool's schema; auto.",
                        read_later)),
      only(kConversation,
           yes_or_no(
               "parallel_tool_calls",
               [](Request& request) -> bool& { return request.tool_use.in_parallel; },
               "Whether an answer may have more than one call; true.")),
      only(
          kConversation,
          other("reasoning_format", one_of({"auto", "deepseek", "none"}),
                "Where the answer has what the model thinks first: none leaves it in the text, the "
                "others give it as reasoning_content [--reasoning-format].",
                [](const Json& value, Request& request) {
                  return read_reasoning_format(value, request.reads_reasoning);
                })),
      only(kConversation, yes_or_no(
                              "include_reasoning",
                              [](Request& request) -> bool& { return request.shows_reasoning; },
                              "Whether the answer has reasoning_content; true.")),
  };
}

// A response's names of what chats have in another form.
std::vector<RequestField> response_fields() {
  std::vector<RequestField> all = {
      other("tools", {{"type", "array"}, {"maxItems", kMaxTools}},
            "Functions that the answer may call: {\"type\": \"function\", \"name\", "
            "\"description\", \"parameters\", \"strict\"}. There are no built-in tools.",
            read_later),
      other("tool_choice", {{"type", OrderedJson::array({"string", "object"})}},
            "As in chats; a tool is {\"type\": \"function\", \"name\"}.", read_later),
      other("text", type("object"),
            "The form of the answer, as format: {\"type\": \"text\"}, {\"type\": "
            "\"json_object\"}, or {\"type\": \"json_schema\", \"name\", \"schema\"}.",
            read_later),
      other("include", type("array"),
            "message.output_text.logprobs: the text has log-probabilities. "
            "reasoning.encrypted_content is ignored.",
            read_include),
      other("reasoning", type("object"),
            "A summary is not made: the reasoning itself is an item. An effort other than medium "
            "is refused.",
            [](const Json& value, Request& /*request*/) { return read_reasoning(value); }),
      whole(
          "max_output_tokens", 1,
          +[](Request& request) -> std::int64_t& { return request.params.text.max_tokens; },
          "Most tokens of an answer; without it: as many as the context holds."),
  };
  for (RequestField& field : all) field.use = kResponse;
  return all;
}

// A message's names of what chats have in another form.
std::vector<RequestField> message_fields() {
  std::vector<RequestField> all = {
      other("tools", {{"type", "array"}, {"maxItems", kMaxTools}},
            "Functions that the answer may call: {\"name\", \"description\", \"input_schema\", "
            "\"strict\"}. There are no built-in tools.",
            read_later),
      other("tool_choice", type("object"),
            "Whether the answer may call tools: {\"type\": \"auto\"}, none; any, or {\"type\": "
            "\"tool\", \"name\"}: it is calls, whose input fits the tool's schema. With "
            "disable_parallel_tool_use true an answer has at most one call.",
            read_later),
      other("output_config", type("object"),
            "The form of the answer, as format: {\"type\": \"json_schema\", \"schema\"}. An effort "
            "is refused.",
            read_later),
      other(
          "thinking", type("object"),
          "{\"type\": \"adaptive\"} or enabled: enable_thinking is true in the chat template, and "
          "the answer has blocks of thinking, unless display is omitted. disabled: it is false. "
          "budget_tokens is refused. Without it: what the model thinks is left out.",
          read_thinking),
      other("stop_sequences", {{"type", "array"}, {"maxItems", StopStrings::kMaxStops}},
            "Texts before which the answer ends.",
            [](const Json& value, Request& request) {
              if (!value.is_array()) return wrong("stop_sequences", "a list of texts");
              return read_stop(value, request.params.text.stop, "stop_sequences");
            }),
      whole(
          "max_tokens", 1,
          +[](Request& request) -> std::int64_t& { return request.params.text.max_tokens; },
          "Most tokens of an answer; without it: as many as the context holds."),
      other("service_tier", one_of({"auto", "standard_only"}), "Both are the default here.",
            [](const Json& value, Request& /*request*/) {
              const bool is_known = value == "auto" || value == "standard_only";
              return is_known ? Status() : wrong("service_tier", "auto or standard_only", value);
            }),
  };
  for (RequestField& field : all) field.use = kMessage;
  return all;
}

std::vector<RequestField> answer_form_fields() {
  std::vector<RequestField> all;
  for (const FormField& field : form_fields()) {
    const OrderedJson any = OrderedJson::array({"object", "string"});
    all.push_back(only(
        kChoices, other(field.name, {{"type", field.type.empty() ? any : OrderedJson(field.type)}},
                        field.description, read_later)));
  }
  return all;
}

std::vector<RequestField> choice_fields() {
  return {
      number(
          "temperature", 0, 100,
          +[](Request& request) -> float& {
            return request.params.text.choice.sampling.temperature;
          },
          "Divides the logits; 0 takes the best token."),
      number(
          "top_p", 0, 1,
          +[](Request& request) -> float& { return request.params.text.choice.sampling.top_p; },
          "Only the likeliest tokens that have this probability together; 1: all."),
      number(
          "min_p", 0, 1,
          +[](Request& request) -> float& { return request.params.text.choice.sampling.min_p; },
          "Only tokens that are at least this part as likely as the likeliest; 0: all."),
      other("top_k", {{"type", "integer"}, {"minimum", -1}, {"maximum", 2147483647}},
            "Only so many of the likeliest tokens; 0 or -1: all.",
            [](const Json& value, Request& request) {
              return read_top_k(value, request.params.text.choice.sampling);
            }),
      other("seed",
            {{"type", "integer"},
             {"minimum", std::numeric_limits<std::int64_t>::min()},
             {"maximum", std::numeric_limits<std::uint64_t>::max()}},
            "Makes a sampled answer repeatable; -1 or null: a fresh one, which the answer names "
            "(outrider.seed).",
            [](const Json& value, Request& request) {
              return read_seed(value, request.params.text);
            }),
      only(kChat, yes_or_no(
                      "logprobs", [](Request& request) -> bool& { return request.wants_logprobs; },
                      "Whether the answer has the log-probability of each of its tokens; false.")),
      only(kOpenaiChat,
           logprobs("top_logprobs",
                    "How many of the likeliest tokens come with each; needs logprobs.")),
      only(kCompletion,
           logprobs("logprobs",
                    "The answer has the log-probability of each of its tokens, with so "
                    "many of the likeliest; with echo, the prompt's tokens have theirs, too.")),
      only(kChoices, other("n", {{"type", "integer"}, {"minimum", 1}, {"maximum", kMaxChoices}},
                           "Choices of each prompt; the first has the seed itself, each other one "
                           "a seed made of "
                           "the seed and its index.",
                           [](const Json& value, Request& request) {
                             return read_integer(value, "n", 1, request.choices);
                           })),
      only(kChoices, other("best_of", {{"type", "integer"}, {"minimum", 1}},
                           "As n: choices are not compared here.",
                           [](const Json& value, Request& request) {
                             return read_integer(value, "best_of", 1, request.best_of.emplace());
                           })),
  };
}

std::vector<RequestField> setting_fields() {
  const auto repetition = +[](Request& request) -> float& {
    return request.params.text.choice.settings.repetition_penalty;
  };
  return {
      number(
          "presence_penalty", -2, 2,
          +[](Request& request) -> float& {
            return request.params.text.choice.settings.presence_penalty;
          },
          "Is taken from the logits of tokens that the answer has already; 0: none."),
      number(
          "frequency_penalty", -2, 2,
          +[](Request& request) -> float& {
            return request.params.text.choice.settings.frequency_penalty;
          },
          "Is taken from them for each time that the answer has the token; 0: none."),
      number("repetition_penalty", 0.01, 100, repetition,
             "Divides positive logits of tokens that prompt or answer have, and multiplies "
             "negative ones; 1: none."),
      number("repeat_penalty", 0.01, 100, repetition, "llama.cpp's name of repetition_penalty."),
      other("logit_bias", {{"type", "object"}, {"maxProperties", ChoiceSettings::kMaxBiases}},
            "Numbers from -100 to 100 that are added to logits, by the ids of tokens.",
            [](const Json& value, Request& request) {
              return read_logit_bias(value, request.params.text.choice.settings.logit_bias);
            }),
      other("bad_words", {{"type", "array"}, {"maxItems", ChoiceSettings::kMaxBadWords}},
            "Texts that the answer may not have, at the beginning of a word.",
            [](const Json& value, Request& request) {
              return read_bad_words(value, request.params.text.bad_words);
            }),
  };
}

std::vector<RequestField> end_fields() {
  const auto length =
      +[](Request& request) -> std::int64_t& { return request.params.text.max_tokens; };
  return {
      only(kChoices, whole("max_completion_tokens", 1, length,
                           "Most tokens of an answer; without it: as many as the context holds.")),
      only(kChat, whole("max_tokens", 1, length, "The older name of max_completion_tokens.")),
      only(kCompletion,
           whole("max_tokens", 0, length,
                 "The older name of max_completion_tokens; 0, with echo: the answer is "
                 "the prompt alone.")),
      only(
          kOpenai,
          other(
              "stop",
              {{"type", OrderedJson::array({"string", "array"})},
               {"maxItems", StopStrings::kMaxStops}},
              "A text before which the answer ends, or a list of such; empty ones are passed over.",
              [](const Json& value, Request& request) {
                return read_stop(value, request.params.text.stop);
              })),
      whole(
          "min_tokens", 0,
          +[](Request& request) -> std::int64_t& {
            return request.params.text.choice.settings.min_tokens;
          },
          "Tokens before which no stop token ends the answer; 0."),
      other("stop_token_ids", {{"type", "array"}, {"maxItems", StopStrings::kMaxStops}},
            "Ids of tokens that end the answer beside the model's own.",
            [](const Json& value, Request& request) {
              return read_stop_tokens(value, request.params.text.stop_token_ids);
            }),
      yes_or_no(
          "ignore_eos", [](Request& request) -> bool& { return request.params.text.ignore_eos; },
          "Whether the answer goes on after the model's end-of-text token; false."),
  };
}

std::vector<RequestField> stream_fields() {
  return {
      yes_or_no(
          "stream", [](Request& request) -> bool& { return request.stream; },
          "Whether the answer comes as server-sent events, as it is made; false."),
      only(kOpenai, other("stream_options", type("object"),
                          "include_usage: a last event has the usage; continuous_usage_stats: "
                          "every event has it.",
                          [](const Json& value, Request& request) {
                            return read_stream_options(value, request.extras);
                          })),
      only(kCompletion, yes_or_no(
                            "echo", [](Request& request) -> bool& { return request.echo; },
                            "Whether the answer's text begins with the prompt's; false.")),
      only(kOpenai,
           other("service_tier", one_of({"auto", "default", "flex", "priority"}),
                 "How urgent the answer is beside others; priority needs a key with that right.",
                 [](const Json& value, Request& request) {
                   return read_service_tier(value, request.params.text.service_tier);
                 })),
      other("slo", type("object"),
            "The time and energy that an answer may take: time_ms, ttft_ms, tpot_ms, energy_j, "
            "min_quality, strict, unverified (docs/elastic.md).",
            [](const Json& value, Request& request) {
              return read_slo(value, request.params.wish.slo);
            }),
      other("speculation", type("boolean"),
            "Whether an edge drafts; false turns it off for this answer.",
            [](const Json& value, Request& request) {
              return read_speculation(value, request.params);
            }),
      other("outrider", {{"type", OrderedJson::array({"boolean", "object"})}},
            "This program's figures; {\"record\": true}: the answer's record.",
            [](const Json& value, Request& request) {
              return read_own_extras(value, request.extras);
            }),
  };
}

}  // namespace

std::span<const RequestField> request_fields() {
  static const std::vector<RequestField> kFields = [] {
    std::vector<RequestField> all;
    for (auto* const fields :
         {prompt_fields, tool_fields, response_fields, message_fields, answer_form_fields,
          choice_fields, setting_fields, end_fields, stream_fields}) {
      std::ranges::move(fields(), std::back_inserter(all));
    }
    return all;
  }();
  return kFields;
}

const RequestField* find_request_field(std::string_view name, Api api) {
  const auto fields = request_fields();
  const auto found = std::ranges::find_if(
      fields, [&](const RequestField& field) { return field.name == name && field.is_used(api); });
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace outrider
