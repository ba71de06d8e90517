// A model's text with tool calls, in each form: the same is read however the text is cut, and each
// call that is whole has a name. SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/serving/tools/answer_parser.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

struct Answer {
  std::string all;
  bool whole = false;
};

Answer read(const outrider::AnswerSyntax& syntax, std::string_view text, std::size_t bytes) {
  outrider::AnswerParser parser(syntax);
  std::string reasoning, content, calls;
  const auto add = [&](const outrider::AnswerDelta& delta) {
    reasoning += delta.reasoning;
    content += delta.content;
    for (const outrider::CallDelta& call : delta.calls) {
      if (!call.name.empty()) calls += "\n" + call.name + " ";
      calls += call.arguments;
    }
  };
  for (std::size_t at = 0; at < text.size(); at += bytes) add(parser.push(text.substr(at, bytes)));
  add(parser.finish());
  check(reasoning.size() + content.size() <= text.size());
  return {reasoning + "\n" + content + calls, parser.has_whole_calls()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const auto kTools = std::make_shared<const outrider::Tools>(outrider::Tools{
      {.name = "move",
       .parameters = nlohmann::ordered_json::parse(
           R"({"type":"object","properties":{"x":{"type":"string"},"y":{"enum":["a"]}}})")},
      {.name = "stop"}});
  const auto formats = outrider::call_formats();
  const outrider::AnswerSyntax syntax{
      .calls = &formats[data[0] % formats.size()], .tools = kTools, .reads_reasoning = true};
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const Answer whole = read(syntax, text, text.size() + 1);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{1} + data[1] % 16}) {
    const Answer cut = read(syntax, text, bytes);
    check(cut.all == whole.all && cut.whole == whole.whole);
  }
  return 0;
}
