// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/template_calls.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/serving/tools/call_parser.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kName[] = "probe_tool";
constexpr char kQuestion[] = "question-5d81c0";

OrderedJson probe_arguments() {
  return {{"first", "a word"}, {"second", 7}};
}

OrderedJson probe_tools() {
  return OrderedJson::array(
      {{{"type", "function"},
        {"function",
         {{"name", kName},
          {"description", "a tool"},
          {"parameters",
           {{"type", "object"},
            {"properties",
             {{"first", {{"type", "string"}, {"description", "a text"}}},
              {"second", {{"type", "integer"}, {"description", "a number"}}}}},
            {"required", OrderedJson::array({"first"})}}}}}}});
}

std::optional<std::string> render(const ChatTemplate& chat,
                                  const std::vector<ChatMessage>& messages, bool prompts,
                                  const OrderedJson& tools) {
  const auto segments = chat.render(messages, prompts, {{"tools", tools}});
  if (!segments.ok()) return std::nullopt;
  std::string text;
  for (const ChatSegment& segment : *segments) text += segment.text;
  return text;
}

// The text that the template writes behind the question, for an answer that is a call.
struct WrittenCall {
  std::string behind_question;
  std::string behind_prompt;  // the part that the prompt for an answer does not have
};

std::optional<WrittenCall> write_probe(const ChatTemplate& chat, bool arguments_are_text) {
  const OrderedJson arguments = probe_arguments();
  const ChatMessage question{ChatRole::kUser, kQuestion};
  ChatMessage answer{ChatRole::kAssistant, ""};
  answer.sent_along["tool_calls"] = OrderedJson::array(
      {{{"id", "a1b2c3d4e"},
        {"type", "function"},
        {"function",
         {{"name", kName},
          {"arguments", arguments_are_text ? OrderedJson(arguments.dump()) : arguments}}}}});
  const auto prompt = render(chat, {question}, true, probe_tools());
  const auto whole = render(chat, {question, answer}, false, probe_tools());
  if (!prompt || !whole) return std::nullopt;
  const std::size_t at = whole->rfind(kQuestion);
  if (at == std::string::npos) return std::nullopt;
  const auto differs = std::ranges::mismatch(*prompt, *whole).in2;
  return WrittenCall{whole->substr(at + std::string_view(kQuestion).size()),
                     std::string(differs, whole->end())};
}

// The bytes of plain text that are left where the form reads the call; nothing: it does not.
std::optional<std::size_t> text_left(const CallFormat& format, std::string_view text) {
  const auto tools = std::make_shared<Tools>();
  tools->push_back({.name = kName, .parameters = probe_tools()[0]["function"]["parameters"]});
  CallParser parser(format, tools);
  CallDeltas calls;
  std::string plain = parser.push(text, calls);
  plain += parser.finish(calls);
  std::string name, arguments;
  for (const CallDelta& delta : calls.take()) {
    name += delta.name;
    arguments += delta.arguments;
  }
  const bool reads = calls.begun() == 1 && calls.all_ended() && name == kName &&
                     OrderedJson::parse(arguments, nullptr, false) == probe_arguments();
  return reads ? std::optional(plain.size()) : std::nullopt;
}

// The form that reads the call and leaves the least text.
const CallFormat* format_of(const WrittenCall& written) {
  const CallFormat* best = nullptr;
  std::size_t least = 0;
  for (const std::string& text : {written.behind_question, written.behind_prompt}) {
    for (const CallFormat& format : call_formats()) {
      const std::optional<std::size_t> left = text_left(format, text);
      if (!left || (best != nullptr && *left >= least)) continue;
      best = &format;
      least = *left;
    }
    if (best != nullptr) break;
  }
  return best;
}

// A form whose mark the prompt names when it tells the model of its tools.
const CallFormat* format_in_prompt(const std::string& prompt) {
  const auto names = [&](const CallFormat& format) {
    return !format.open.empty() && prompt.find(format.open) != std::string::npos;
  };
  const auto found = std::ranges::find_if(call_formats(), names);
  return found == call_formats().end() ? nullptr : &*found;
}

Status no_tools(const std::string& why) {
  return unimplemented("'tools' is not supported with this chat template: " + why)
      .with_detail({.reason = "unsupported_parameter", .field = "tools"});
}

}  // namespace

Result<TemplateCalls> calls_of_template(const ChatTemplate& chat, std::string_view format_name) {
  TemplateCalls calls{.format = find_call_format(format_name)};
  if (!format_name.empty() && calls.format == nullptr) {
    return invalid_argument("--tool-call-parser " + std::string(format_name) +
                            " is not known. Remedy: one of " + call_format_names());
  }
  const std::vector<ChatMessage> question = {{ChatRole::kUser, kQuestion}};
  const auto without = render(chat, question, true, nullptr);
  const auto prompt = render(chat, question, true, probe_tools());
  if (!prompt || prompt == without) {
    return no_tools("it writes none. Remedy: a template that does (--chat-template)");
  }
  for (const bool as_text : {false, true}) {
    const auto written = write_probe(chat, as_text);
    const CallFormat* const format = written ? format_of(*written) : nullptr;
    if (format == nullptr) continue;
    if (calls.format == nullptr) calls.format = format;
    calls.arguments_are_text = as_text;
    return calls;
  }
  calls.writes_calls = false;
  if (calls.format == nullptr) calls.format = format_in_prompt(*prompt);
  if (calls.format == nullptr) {
    return no_tools(
        "it writes calls in no known form. Remedy: name the model's form with "
        "--tool-call-parser, one of " +
        call_format_names());
  }
  return calls;
}

std::string write_calls(const CallFormat& format, const OrderedJson& calls) {
  const bool is_python = format.arguments == CallArguments::kPython;
  std::string list;
  for (const OrderedJson& call : calls) {
    const OrderedJson& function = call["function"];
    const OrderedJson& arguments = function["arguments"];
    list += list.empty() ? "[" : ", ";
    if (!is_python) {
      list += OrderedJson({{"name", function["name"]}, {"arguments", arguments}}).dump();
      continue;
    }
    std::string written;
    for (const auto& [name, value] : arguments.items()) {
      written.append(written.empty() ? "" : ", ").append(name + "=" + value.dump());
    }
    list += function["name"].get<std::string>() + "(" + written + ")";
  }
  return std::string(format.open) + list + "]" + std::string(format.close);
}

}  // namespace outrider
