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

OrderedJson chunk(const AnswerName& name, OrderedJson delta, const OrderedJson& reason) {
  OrderedJson json = head(name, true);
  OrderedJson choice = {{"index", 0}};
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

// This program's own words: figures if requested, and the seed unasked, so that the answer can be
// repeated.
void add_own(const AnswerExtras& extras, const AnswerEnd& end, OrderedJson& json) {
  if (!extras.figures && !end.seed) return;
  OrderedJson own = extras.figures ? OrderedJson(end.figures) : OrderedJson::object();
  if (end.seed) own["seed"] = *end.seed;
  json["outrider"] = std::move(own);
}

}  // namespace

std::string first_event(const AnswerName& name, const AnswerExtras& extras) {
  if (!name.is_chat) return {};
  OrderedJson json = chunk(name, {{"role", "assistant"}, {"content", ""}}, nullptr);
  if (extras.usage || extras.usage_so_far) json["usage"] = nullptr;
  return event(json);
}

std::string delta_event(const AnswerName& name, const AnswerExtras& extras,
                        const AnswerDelta& delta, std::span<const AnswerPiece> pieces,
                        const AnswerUsage& usage) {
  if (delta.empty()) return {};
  OrderedJson said = OrderedJson::object();
  if (!delta.reasoning.empty()) said["reasoning_content"] = delta.reasoning;
  if (!delta.content.empty()) said["content"] = delta.content;
  if (!delta.calls.empty()) said["tool_calls"] = calls_json(delta.calls, /*streamed=*/true);
  OrderedJson json = chunk(name, std::move(said), nullptr);
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

std::string unverified_event(const AnswerName& name, const AnswerExtras& extras,
                             const std::string& continuation, bool whole) {
  OrderedJson json = chunk(name, OrderedJson::object(), nullptr);
  if (extras.usage || extras.usage_so_far) json["usage"] = nullptr;
  json["unverified"] = {{"continuation", continuation}, {"whole", whole}};
  return event(json);
}

std::string last_events(const AnswerName& name, const AnswerExtras& extras, const AnswerEnd& end) {
  OrderedJson last = chunk(name, OrderedJson::object(), finish_reason(end));
  add_usage(extras, end.usage, last);
  add_own(extras, end, last);
  if (!end.level.is_null()) last["level"] = end.level;
  if (!end.unverified.is_null()) last["unverified"] = end.unverified;
  std::string events = event(last);
  if (extras.usage) {
    OrderedJson json = head(name, true);
    json["choices"] = OrderedJson::array();
    json["usage"] = usage_json(end.usage);
    events += event(json);
  }
  return events + "data: [DONE]\n\n";
}

std::string error_event(const Status& status) {
  return "data: " + error_response(status).body + "\n\n";
}

std::string whole_answer(const AnswerName& name, const AnswerExtras& extras,
                         const AnswerDelta& delta, const AnswerEnd& end) {
  OrderedJson json = head(name, false);
  OrderedJson choice = {{"index", 0}};
  if (name.is_chat) {
    const bool is_silent = delta.content.empty() && !delta.calls.empty();
    OrderedJson message = {{"role", "assistant"},
                           {"content", is_silent ? OrderedJson() : OrderedJson(delta.content)}};
    if (!delta.reasoning.empty()) message["reasoning_content"] = delta.reasoning;
    if (!delta.calls.empty()) message["tool_calls"] = calls_json(delta.calls, /*streamed=*/false);
    choice["message"] = std::move(message);
  } else {
    choice["text"] = delta.content;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason(end);
  json["choices"] = OrderedJson::array({std::move(choice)});
  json["usage"] = usage_json(end.usage);
  add_own(extras, end, json);
  if (!end.level.is_null()) json["level"] = end.level;
  return dump(json);
}

}  // namespace outrider
