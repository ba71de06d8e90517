// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_answer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string event(const OrderedJson& json) {
  return "data: " + written(json) + "\n\n";
}

bool is_chat(const AnswerName& name) {
  return name.api == Api::kChat;
}

OrderedJson head(const AnswerName& name, bool chunk) {
  const char* object =
      is_chat(name) ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
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
  if (is_chat(name)) {
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
           {{"reasoning_tokens", usage.reasoning_tokens},
            {"accepted_prediction_tokens", usage.accepted_tokens},
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

AnswerUsage usage_of(std::span<const AnswerChoice> choices) {
  AnswerUsage all;
  for (const AnswerChoice& choice : choices) {
    const AnswerUsage& one = choice.end.usage;
    if (choice.end.counts_prompt) {
      all.prompt_tokens += one.prompt_tokens;
      all.cached_tokens += one.cached_tokens;
    }
    all.completion_tokens += one.completion_tokens;
    all.reasoning_tokens += one.reasoning_tokens;
    all.accepted_tokens += one.accepted_tokens;
    all.rejected_tokens += one.rejected_tokens;
  }
  return all;
}

OrderedJson choice_json(const AnswerName& name, const AnswerChoice& choice) {
  const AnswerDelta& delta = choice.delta;
  OrderedJson json = {{"index", choice.index}};
  if (is_chat(name)) {
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

class ChoicesWriter final : public AnswerWriter {
 public:
  ChoicesWriter(AnswerName name, const AnswerExtras& extras)
      : name_(std::move(name)), extras_(extras) {}

  // The role, of each choice of a chat.
  std::string first_events(std::size_t choices) override;
  std::string delta_event(const AnswerPart& part) override;
  std::string unverified_event(std::size_t index, const std::string& continuation,
                               bool whole) override;
  // The finish reason.
  std::string last_event(std::size_t index, const AnswerEnd& end) override;
  // Usage of all choices if requested, and [DONE], which does not follow an error.
  std::string stream_end(std::span<const AnswerChoice> choices) override;
  std::string error_event(const Status& status) const override;
  std::string whole_answer(std::span<const AnswerChoice> choices) override;

 private:
  const AnswerName name_;
  const AnswerExtras extras_;
};

std::string ChoicesWriter::first_events(std::size_t choices) {
  std::string events;
  for (std::size_t index = 0; is_chat(name_) && index < choices; ++index) {
    OrderedJson json = chunk(name_, index, {{"role", "assistant"}, {"content", ""}}, nullptr);
    if (extras_.usage || extras_.usage_so_far) json["usage"] = nullptr;
    events += event(json);
  }
  return events;
}

std::string ChoicesWriter::delta_event(const AnswerPart& part) {
  const auto& [index, delta, pieces, usage, logprobs] = part;
  if (delta.empty() && logprobs.is_null()) return {};
  OrderedJson said = OrderedJson::object();
  if (!delta.reasoning.empty()) said["reasoning_content"] = delta.reasoning;
  if (!delta.content.empty()) said["content"] = delta.content;
  if (!delta.calls.empty()) said["tool_calls"] = calls_json(delta.calls, /*streamed=*/true);
  OrderedJson json = chunk(name_, index, std::move(said), nullptr);
  if (!logprobs.is_null()) json["choices"][0]["logprobs"] = logprobs;
  add_usage(extras_, usage, json);
  if (extras_.figures) {
    OrderedJson tokens = OrderedJson::array();
    for (const AnswerPiece& piece : pieces) {
      if (piece.text.empty()) continue;
      tokens.push_back({{"text", piece.text}, {"drafted", piece.drafted}});
    }
    json["outrider"] = {{"tokens", std::move(tokens)}};
  }
  return event(json);
}

std::string ChoicesWriter::unverified_event(std::size_t index, const std::string& continuation,
                                            bool whole) {
  OrderedJson json = chunk(name_, index, OrderedJson::object(), nullptr);
  if (extras_.usage || extras_.usage_so_far) json["usage"] = nullptr;
  json["unverified"] = {{"continuation", continuation}, {"whole", whole}};
  return event(json);
}

std::string ChoicesWriter::last_event(std::size_t index, const AnswerEnd& end) {
  OrderedJson last = chunk(name_, index, OrderedJson::object(), finish_reason(end));
  add_usage(extras_, end.usage, last);
  add_own(extras_, end, last);
  if (!end.unverified.is_null()) last["unverified"] = end.unverified;
  return event(last);
}

std::string ChoicesWriter::stream_end(std::span<const AnswerChoice> choices) {
  std::string events;
  if (extras_.usage) {
    OrderedJson json = head(name_, true);
    json["choices"] = OrderedJson::array();
    json["usage"] = usage_json(usage_of(choices));
    events = event(json);
  }
  return events + "data: [DONE]\n\n";
}

std::string ChoicesWriter::error_event(const Status& status) const {
  return "data: " + error_response(status).body + "\n\n";
}

std::string ChoicesWriter::whole_answer(std::span<const AnswerChoice> choices) {
  OrderedJson json = head(name_, false);
  json["choices"] = OrderedJson::array();
  for (const AnswerChoice& choice : choices) {
    OrderedJson one = choice_json(name_, choice);
    if (choices.size() > 1) add_own(extras_, choice.end, one);
    json["choices"].push_back(std::move(one));
  }
  json["usage"] = usage_json(usage_of(choices));
  if (choices.size() == 1) add_own(extras_, choices.front().end, json);
  return written(json);
}

}  // namespace

std::string prompt_field(Api api) {
  if (api == Api::kCompletions) return "prompt";
  return api == Api::kResponses ? "input" : "messages";
}

ErrorForm error_form_of(Api api) {
  return api == Api::kMessages ? ErrorForm::kAnthropic : ErrorForm::kOpenai;
}

std::unique_ptr<AnswerWriter> choices_writer(AnswerName name, const AnswerExtras& extras) {
  return std::make_unique<ChoicesWriter>(std::move(name), extras);
}

void add_own(const AnswerExtras& extras, const AnswerEnd& end, OrderedJson& json) {
  const bool has_record = extras.record && !end.record.empty();
  if (extras.figures || has_record || end.seed) {
    OrderedJson own = extras.figures ? OrderedJson(end.figures) : OrderedJson::object();
    if (has_record) own["record"] = end.record;
    if (end.seed) own["seed"] = *end.seed;
    json["outrider"] = std::move(own);
  }
  if (!end.level.is_null()) json["level"] = end.level;
}

std::string written(const OrderedJson& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace outrider
