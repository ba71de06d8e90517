// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/response_writer.h"

#include <string>
#include <utility>

#include "common/base/json.h"
#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson response_usage(const AnswerUsage& usage) {
  return {
      {"input_tokens", usage.prompt_tokens},
      // Clients require both. A prompt is kept for others at no price, so none is counted as
      // written.
      {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details",
       {{"reasoning_tokens", usage.reasoning_tokens},
        {"accepted_prediction_tokens", usage.accepted_tokens},
        {"rejected_prediction_tokens", usage.rejected_tokens}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

class ResponseWriter final : public AnswerWriter {
 public:
  ResponseWriter(AnswerName name, const AnswerExtras& extras)
      : name_(std::move(name)), extras_(extras) {}

  std::string first_events(std::size_t choices) override;
  std::string delta_event(const AnswerPart& part) override;
  std::string unverified_event(std::size_t index, const std::string& continuation,
                               bool whole) override;
  // The last item's end; that of the response is stream_end()'s.
  std::string last_event(std::size_t index, const AnswerEnd& end) override;
  std::string stream_end(std::span<const AnswerChoice> choices) override;
  std::string error_event(const Status& status) const override;
  std::string whole_answer(std::span<const AnswerChoice> choices) override;

 private:
  // An event names the item that it is about, and its part.
  enum class About : std::uint8_t { kResponse, kItem, kPart };
  std::string event(const std::string& type, About about, OrderedJson fields);
  std::string open(const std::string& type, OrderedJson fields);
  std::string close(const char* status);
  std::string say(const std::string& type, const std::string& text, const OrderedJson& logprobs);
  std::string call(const CallDelta& call);
  OrderedJson response(const char* status) const;
  OrderedJson ended(const AnswerEnd& end) const;
  bool is_open(const std::string& type) const { return open_ && output_.back()["type"] == type; }

  const AnswerName name_;
  const AnswerExtras extras_;
  std::uint64_t next_number_ = 0;  // of an event
  OrderedJson output_ = OrderedJson::array();
  bool open_ = false;     // the last item may grow
  OrderedJson unplaced_;  // log-probabilities of tokens whose text is held back
};

std::string ResponseWriter::event(const std::string& type, About about, OrderedJson fields) {
  OrderedJson json = {{"type", type}, {"sequence_number", next_number_++}};
  if (about != About::kResponse) json["output_index"] = output_.size() - 1;
  if (about == About::kPart) {
    json["item_id"] = output_.back()["id"];
    if (!is_open("function_call")) json["content_index"] = 0;
  }
  json.update(fields);
  return "event: " + type + "\ndata: " + written(json) + "\n\n";
}

OrderedJson ResponseWriter::response(const char* status) const {
  OrderedJson json = {
      {"id", name_.id},       {"object", "response"}, {"created_at", name_.created},
      {"status", status},     {"error", nullptr},     {"incomplete_details", nullptr},
      {"model", name_.model}, {"output", output_},    {"service_tier", name_of(name_.service_tier)},
      {"usage", nullptr}};
  json.update(name_.repeated);
  return json;
}

OrderedJson ResponseWriter::ended(const AnswerEnd& end) const {
  OrderedJson json = response(end.by_length ? "incomplete" : "completed");
  if (end.by_length) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = response_usage(end.usage);
  add_own(extras_, end, json);
  if (!end.unverified.is_null()) json["unverified"] = end.unverified;
  return json;
}

std::string ResponseWriter::open(const std::string& type, OrderedJson fields) {
  std::string events = close("completed");
  const std::string short_name = type == "message" ? "msg_" : type == "reasoning" ? "rs_" : "fc_";
  OrderedJson item = {{"id", short_name + name_.id + "_" + std::to_string(output_.size())},
                      {"type", type},
                      {"status", "in_progress"}};
  item.update(fields);
  output_.push_back(std::move(item));
  open_ = true;
  events += event("response.output_item.added", About::kItem, {{"item", output_.back()}});
  if (type == "function_call") return events;
  OrderedJson part = {{"type", type == "message" ? "output_text" : "reasoning_text"}, {"text", ""}};
  if (type == "message") {
    part["annotations"] = OrderedJson::array();
    part["logprobs"] = OrderedJson::array();
  }
  events += event("response.content_part.added", About::kPart, {{"part", part}});
  output_.back()["content"].push_back(std::move(part));
  return events;
}

std::string ResponseWriter::close(const char* status) {
  if (!open_) return {};
  OrderedJson& item = output_.back();
  item["status"] = status;
  std::string events;
  if (item["type"] == "function_call") {
    events = event("response.function_call_arguments.done", About::kPart,
                   {{"name", item["name"]}, {"arguments", item["arguments"]}});
  } else {
    const OrderedJson& part = item["content"][0];
    OrderedJson fields = {{"text", part["text"]}};
    if (part.contains("logprobs")) fields["logprobs"] = part["logprobs"];
    events = event("response." + part["type"].get<std::string>() + ".done", About::kPart, fields);
    events += event("response.content_part.done", About::kPart, {{"part", part}});
  }
  events += event("response.output_item.done", About::kItem, {{"item", item}});
  open_ = false;
  return events;
}

// Adds to the item of that type, which is a message or reasoning.
std::string ResponseWriter::say(const std::string& type, const std::string& text,
                                const OrderedJson& logprobs) {
  std::string events;
  if (!is_open(type)) {
    OrderedJson fields = {{"content", OrderedJson::array()}};
    if (type == "message") fields["role"] = "assistant";
    if (type == "reasoning") fields["summary"] = OrderedJson::array();
    events = open(type, std::move(fields));
  }
  OrderedJson& part = output_.back()["content"][0];
  part["text"] = part["text"].get_ref<const std::string&>() + text;
  OrderedJson fields = {{"delta", text}};
  if (type == "message") {
    fields["logprobs"] = logprobs;
    for (const OrderedJson& token : logprobs) part["logprobs"].push_back(token);
  }
  return events +
         event("response." + part["type"].get<std::string>() + ".delta", About::kPart, fields);
}

std::string ResponseWriter::call(const CallDelta& call) {
  std::string events;
  if (!call.name.empty()) {
    events = open("function_call", {{"call_id", call.id}, {"name", call.name}, {"arguments", ""}});
  }
  if (call.arguments.empty()) return events;
  OrderedJson& arguments = output_.back()["arguments"];
  arguments = arguments.get_ref<const std::string&>() + call.arguments;
  return events +
         event("response.function_call_arguments.delta", About::kPart, {{"delta", call.arguments}});
}

std::string ResponseWriter::first_events(std::size_t /*choices*/) {
  const OrderedJson fields = {{"response", response("in_progress")}};
  const std::string created = event("response.created", About::kResponse, fields);
  return created + event("response.in_progress", About::kResponse, fields);
}

// Log-probabilities are those of a message's tokens only.
std::string ResponseWriter::delta_event(const AnswerPart& part) {
  const AnswerDelta& delta = part.delta;
  std::string events;
  if (!delta.reasoning.empty()) events += say("reasoning", delta.reasoning, nullptr);
  if (!part.logprobs.is_null()) {
    for (const OrderedJson& token : part.logprobs["content"]) unplaced_.push_back(token);
  }
  if (!delta.content.empty()) {
    const OrderedJson placed = std::exchange(unplaced_, nullptr);
    events += say("message", delta.content, placed.is_null() ? OrderedJson::array() : placed);
  }
  for (const CallDelta& each : delta.calls) events += call(each);
  if (!delta.reasoning.empty() || !delta.calls.empty()) unplaced_ = nullptr;
  return events;
}

std::string ResponseWriter::unverified_event(std::size_t /*index*/, const std::string& continuation,
                                             bool whole) {
  return event("outrider.unverified", About::kResponse,
               {{"continuation", continuation}, {"whole", whole}});
}

// An answer without a word is a message, too. A stop text may have cut a call.
std::string ResponseWriter::last_event(std::size_t /*index*/, const AnswerEnd& end) {
  std::string events;
  if (output_.empty()) events = say("message", "", OrderedJson::array());
  const bool is_cut = end.by_length || (is_open("function_call") && !end.by_calls);
  return events + close(is_cut ? "incomplete" : "completed");
}

std::string ResponseWriter::stream_end(std::span<const AnswerChoice> choices) {
  const AnswerEnd& end = choices.front().end;
  return event(end.by_length ? "response.incomplete" : "response.completed", About::kResponse,
               {{"response", ended(end)}});
}

std::string ResponseWriter::error_event(const Status& status) const {
  const Json error = Json::parse(error_response(status).body)["error"];
  const OrderedJson json = {{"type", "error"},
                            {"sequence_number", next_number_},
                            {"code", error["code"]},
                            {"message", error["message"]},
                            {"param", error["param"]}};
  return "event: error\ndata: " + written(json) + "\n\n";
}

std::string ResponseWriter::whole_answer(std::span<const AnswerChoice> choices) {
  const AnswerChoice& choice = choices.front();
  delta_event({.delta = choice.delta, .usage = choice.end.usage, .logprobs = choice.logprobs});
  last_event(0, choice.end);
  return written(ended(choice.end));
}

}  // namespace

std::unique_ptr<AnswerWriter> response_writer(AnswerName name, const AnswerExtras& extras) {
  return std::make_unique<ResponseWriter>(std::move(name), extras);
}

}  // namespace outrider
