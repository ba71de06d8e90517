// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_answer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The session holds incomplete characters back, so text is UTF-8. If a faulty tokenizer breaks
// that, invalid bytes are replaced.
std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string event(const OrderedJson& json) {
  return "data: " + dump(json) + "\n\n";
}

OrderedJson head(const AnswerName& name, bool chunk) {
  const char* object =
      name.is_chat ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return {{"id", name.id},
          {"object", object},
          {"created", name.created},
          {"model", name.model},
          {"service_tier", name_of(name.service_tier)}};
}

OrderedJson chunk(const AnswerName& name, std::size_t index, OrderedJson delta,
                  const OrderedJson& reason) {
  OrderedJson json = head(name, true);
  OrderedJson choice = {{"index", index}};
  if (name.is_chat) {
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = delta.value("content", "");
  }
  choice["finish_reason"] = reason;
  json["choices"] = OrderedJson::array({std::move(choice)});
  return json;
}

const char* finish_reason(const AnswerEnd& end) {
  return end.by_length ? "length" : end.by_calls ? "tool_calls" : "stop";
}

// streamed: a part of a call has its index, and the first one its name.
OrderedJson calls_json(const std::vector<CallDelta>& calls, bool streamed) {
  OrderedJson list = OrderedJson::array();
  for (const CallDelta& call : calls) {
    OrderedJson one;
    if (streamed) one["index"] = call.index;
    if (!call.name.empty()) {
      one["id"] = call.id;
      one["type"] = "function";
      one["function"]["name"] = call.name;
    }
    one["function"]["arguments"] = call.arguments;
    list.push_back(std::move(one));
  }
  return list;
}

OrderedJson usage_json(const AnswerUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", usage.accepted_tokens},
            {"rejected_prediction_tokens", usage.rejected_tokens}}}};
}

// Where usage has an event of its own, the other events have "usage": null.
void add_usage(const AnswerExtras& extras, const AnswerUsage& usage, OrderedJson& json) {
  if (extras.usage_so_far) {
    json["usage"] = usage_json(usage);
  } else if (extras.usage) {
    json["usage"] = nullptr;
  }
}

// This program's own words about a choice: figures if requested, and the seed unasked, so that the
// answer can be repeated.
void add_own(const AnswerExtras& extras, const AnswerEnd& end, OrderedJson& json) {
  if (extras.figures || end.seed) {
    OrderedJson own = extras.figures ? OrderedJson(end.figures) : OrderedJson::object();
    if (end.seed) own["seed"] = *end.seed;
    json["outrider"] = std::move(own);
  }
  if (!end.level.is_null()) json["level"] = end.level;
}

AnswerUsage usage_of(std::span<const AnswerChoice> choices) {
  AnswerUsage all;
  for (const AnswerChoice& choice : choices) {
    const AnswerUsage& one = choice.end.usage;
    if (choice.end.counts_prompt) {
      all.prompt_tokens += one.prompt_tokens;
      all.cached_tokens += one.cached_tokens;
    }
    all.completion_tokens += one.completion_tokens;
    all.accepted_tokens += one.accepted_tokens;
    all.rejected_tokens += one.rejected_tokens;
  }
  return all;
}

OrderedJson choice_json(const AnswerName& name, const AnswerChoice& choice) {
  const AnswerDelta& delta = choice.delta;
  OrderedJson json = {{"index", choice.index}};
  if (name.is_chat) {
    const bool is_silent = delta.content.empty() && !delta.calls.empty();
    OrderedJson message = {{"role", "assistant"},
                           {"content", is_silent ? OrderedJson() : OrderedJson(delta.content)}};
    if (!delta.reasoning.empty()) message["reasoning_content"] = delta.reasoning;
    if (!delta.calls.empty()) message["tool_calls"] = calls_json(delta.calls, /*streamed=*/false);
    json["message"] = std::move(message);
  } else {
    json["text"] = delta.content;
  }
  json["logprobs"] = choice.logprobs;
  json["finish_reason"] = finish_reason(choice.end);
  return json;
}

}  // namespace

std::string first_events(const AnswerName& name, const AnswerExtras& extras, std::size_t choices) {
  std::string events;
  for (std::size_t index = 0; name.is_chat && index < choices; ++index) {
    OrderedJson json = chunk(name, index, {{"role", "assistant"}, {"content", ""}}, nullptr);
    if (extras.usage || extras.usage_so_far) json["usage"] = nullptr;
    events += event(json);
  }
  return events;
}

std::string delta_event(const AnswerName& name, const AnswerExtras& extras, std::size_t index,
                        const AnswerDelta& delta, std::span<const AnswerPiece> pieces,
                        const AnswerUsage& usage, const OrderedJson& logprobs) {
  if (delta.empty() && logprobs.is_null()) return {};
  OrderedJson said = OrderedJson::object();
  if (!delta.reasoning.empty()) said["reasoning_content"] = delta.reasoning;
  if (!delta.content.empty()) said["content"] = delta.content;
  if (!delta.calls.empty()) said["tool_calls"] = calls_json(delta.calls, /*streamed=*/true);
  OrderedJson json = chunk(name, index, std::move(said), nullptr);
  if (!logprobs.is_null()) json["choices"][0]["logprobs"] = logprobs;
  add_usage(extras, usage, json);
  if (extras.figures) {
    OrderedJson tokens = OrderedJson::array();
    for (const AnswerPiece& piece : pieces) {
      if (piece.text.empty()) continue;
      tokens.push_back({{"text", piece.text}, {"drafted", piece.drafted}});
    }
    json["outrider"] = {{"tokens", std::move(tokens)}};
  }
  return event(json);
}

std::string unverified_event(const AnswerName& name, const AnswerExtras& extras, std::size_t index,
                             const std::string& continuation, bool whole) {
  OrderedJson json = chunk(name, index, OrderedJson::object(), nullptr);
  if (extras.usage || extras.usage_so_far) json["usage"] = nullptr;
  json["unverified"] = {{"continuation", continuation}, {"whole", whole}};
  return event(json);
}

std::string last_event(const AnswerName& name, const AnswerExtras& extras, std::size_t index,
                       const AnswerEnd& end) {
  OrderedJson last = chunk(name, index, OrderedJson::object(), finish_reason(end));
  add_usage(extras, end.usage, last);
  add_own(extras, end, last);
  if (!end.unverified.is_null()) last["unverified"] = end.unverified;
  return event(last);
}

std::string stream_end(const AnswerName& name, const AnswerExtras& extras,
                       std::span<const AnswerChoice> choices) {
  std::string events;
  if (extras.usage) {
    OrderedJson json = head(name, true);
    json["choices"] = OrderedJson::array();
    json["usage"] = usage_json(usage_of(choices));
    events = event(json);
  }
  return events + "data: [DONE]\n\n";
}

std::string error_event(const Status& status) {
  return "data: " + error_response(status).body + "\n\n";
}

std::string whole_answer(const AnswerName& name, const AnswerExtras& extras,
                         std::span<const AnswerChoice> choices) {
  OrderedJson json = head(name, false);
  json["choices"] = OrderedJson::array();
  for (const AnswerChoice& choice : choices) {
    OrderedJson one = choice_json(name, choice);
    if (choices.size() > 1) add_own(extras, choice.end, one);
    json["choices"].push_back(std::move(one));
  }
  json["usage"] = usage_json(usage_of(choices));
  if (choices.size() == 1) add_own(extras, choices.front().end, json);
  return dump(json);
}

}  // namespace outrider
