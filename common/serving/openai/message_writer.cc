// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/message_writer.h"

#include <string>
#include <utility>

#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

const char* stop_reason(const AnswerEnd& end) {
  if (end.by_length) return "max_tokens";
  if (end.by_calls) return "tool_use";
  return end.stop_text.empty() ? "end_turn" : "stop_sequence";
}

// A prompt's tokens are counted as read from memory or as read anew, never as both.
OrderedJson message_usage(const AnswerUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.completion_tokens}};
}

class MessageWriter final : public AnswerWriter {
 public:
  MessageWriter(AnswerName name, const AnswerExtras& extras)
      : name_(std::move(name)), extras_(extras) {}

  std::string first_events(std::size_t choices) override;
  std::string delta_event(const AnswerPart& part) override;
  std::string unverified_event(std::size_t index, const std::string& continuation,
                               bool whole) override;
  // The last block's end, and why the message ended.
  std::string last_event(std::size_t index, const AnswerEnd& end) override;
  std::string stream_end(std::span<const AnswerChoice> choices) override;
  std::string error_event(const Status& status) const override;
  std::string whole_answer(std::span<const AnswerChoice> choices) override;

 private:
  static std::string event(const std::string& type, const OrderedJson& fields);
  std::string open(OrderedJson block);
  std::string close();
  std::string add(OrderedJson delta) const;
  std::string say(const std::string& type, const std::string& text);
  std::string call(const CallDelta& call);
  // Why it ended; null while it has not.
  static OrderedJson ending(const AnswerEnd* end);
  OrderedJson message(const AnswerEnd* end, OrderedJson usage) const;

  const AnswerName name_;
  const AnswerExtras extras_;
  OrderedJson content_ = OrderedJson::array();
  bool open_ = false;  // the last block may grow
  std::string input_;  // of the call that is open
};

std::string MessageWriter::event(const std::string& type, const OrderedJson& fields) {
  OrderedJson json = {{"type", type}};
  json.update(fields);
  return "event: " + type + "\ndata: " + written(json) + "\n\n";
}

OrderedJson MessageWriter::ending(const AnswerEnd* end) {
  const bool by_text = end != nullptr && !end->stop_text.empty() && !end->by_calls;
  return {{"stop_reason", end == nullptr ? OrderedJson() : OrderedJson(stop_reason(*end))},
          {"stop_sequence", by_text ? OrderedJson(end->stop_text) : OrderedJson()}};
}

OrderedJson MessageWriter::message(const AnswerEnd* end, OrderedJson usage) const {
  OrderedJson json = {{"id", name_.id},
                      {"type", "message"},
                      {"role", "assistant"},
                      {"model", name_.model},
                      {"content", content_}};
  json.update(ending(end));
  json["usage"] = std::move(usage);
  return json;
}

std::string MessageWriter::open(OrderedJson block) {
  std::string events = close();
  content_.push_back(std::move(block));
  open_ = true;
  return events + event("content_block_start",
                        {{"index", content_.size() - 1}, {"content_block", content_.back()}});
}

// Arguments that a bound has cut are no object: then the block has an empty one, and the events
// have what was written.
std::string MessageWriter::close() {
  if (!std::exchange(open_, false)) return {};
  OrderedJson& block = content_.back();
  if (block["type"] == "tool_use") {
    OrderedJson input = OrderedJson::parse(std::exchange(input_, {}), nullptr, false);
    if (input.is_object()) block["input"] = std::move(input);
  }
  return event("content_block_stop", {{"index", content_.size() - 1}});
}

std::string MessageWriter::add(OrderedJson delta) const {
  return event("content_block_delta",
               {{"index", content_.size() - 1}, {"delta", std::move(delta)}});
}

// Adds to the block of that type, which is text or thinking.
std::string MessageWriter::say(const std::string& type, const std::string& text) {
  std::string events;
  if (!open_ || content_.back()["type"] != type) {
    OrderedJson block = {{"type", type}, {type, ""}};
    if (type == "thinking") block["signature"] = "";  // clients require one, and send it back
    events = open(std::move(block));
  }
  if (text.empty()) return events;
  OrderedJson& said = content_.back()[type];
  said = said.get_ref<const std::string&>() + text;
  return events + add({{"type", type + "_delta"}, {type, text}});
}

std::string MessageWriter::call(const CallDelta& call) {
  std::string events;
  if (!call.name.empty()) {
    events = open({{"type", "tool_use"},
                   {"id", call.id},
                   {"name", call.name},
                   {"input", OrderedJson::object()}});
  }
  if (call.arguments.empty()) return events;
  input_ += call.arguments;
  return events + add({{"type", "input_json_delta"}, {"partial_json", call.arguments}});
}

std::string MessageWriter::first_events(std::size_t /*choices*/) {
  const AnswerUsage usage{.prompt_tokens = name_.repeated.value("input_tokens", std::uint64_t{0})};
  return event("message_start", {{"message", message(nullptr, message_usage(usage))}}) +
         event("ping", OrderedJson::object());
}

std::string MessageWriter::delta_event(const AnswerPart& part) {
  const AnswerDelta& delta = part.delta;
  std::string events;
  if (!delta.reasoning.empty()) events += say("thinking", delta.reasoning);
  if (!delta.content.empty()) events += say("text", delta.content);
  for (const CallDelta& each : delta.calls) events += call(each);
  return events;
}

std::string MessageWriter::unverified_event(std::size_t /*index*/, const std::string& continuation,
                                            bool whole) {
  return event("outrider.unverified", {{"continuation", continuation}, {"whole", whole}});
}

// An answer without a word is a text, too.
std::string MessageWriter::last_event(std::size_t /*index*/, const AnswerEnd& end) {
  std::string events;
  if (content_.empty()) events = say("text", "");
  events += close();
  OrderedJson fields = {{"delta", ending(&end)}, {"usage", message_usage(end.usage)}};
  add_own(extras_, end, fields);
  if (!end.unverified.is_null()) fields["unverified"] = end.unverified;
  return events + event("message_delta", fields);
}

std::string MessageWriter::stream_end(std::span<const AnswerChoice> /*choices*/) {
  return event("message_stop", OrderedJson::object());
}

std::string MessageWriter::error_event(const Status& status) const {
  return "event: error\ndata: " + error_response(status, std::nullopt, ErrorForm::kAnthropic).body +
         "\n\n";
}

std::string MessageWriter::whole_answer(std::span<const AnswerChoice> choices) {
  const AnswerChoice& choice = choices.front();
  delta_event({.delta = choice.delta, .usage = choice.end.usage, .logprobs = choice.logprobs});
  last_event(0, choice.end);
  OrderedJson json = message(&choice.end, message_usage(choice.end.usage));
  add_own(extras_, choice.end, json);
  return written(json);
}

}  // namespace

std::unique_ptr<AnswerWriter> message_writer(AnswerName name, const AnswerExtras& extras) {
  return std::make_unique<MessageWriter>(std::move(name), extras);
}

}  // namespace outrider
