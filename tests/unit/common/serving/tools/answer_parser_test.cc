// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/answer_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

// The whole answer, read in pieces of so many bytes; a call is its name and arguments.
struct Answer {
  std::string reasoning, content, calls;
};
Answer parse(const AnswerSyntax& syntax, const std::string& text, std::size_t bytes) {
  AnswerParser parser(syntax);
  Answer all;
  const auto add = [&all](const AnswerDelta& delta) {
    all.reasoning += delta.reasoning;
    all.content += delta.content;
    for (const CallDelta& call : delta.calls) all.calls += call.name + call.arguments;
  };
  for (std::size_t at = 0; at < text.size(); at += bytes) add(parser.push(text.substr(at, bytes)));
  add(parser.finish());
  return all;
}

void expect(const AnswerSyntax& syntax, const std::string& text, const Answer& expected) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, std::size_t{1000}}) {
    const Answer got = parse(syntax, text, bytes);
    EXPECT_EQ(got.reasoning, expected.reasoning) << text;
    EXPECT_EQ(got.content, expected.content) << text;
    EXPECT_EQ(got.calls, expected.calls) << text;
  }
}

const AnswerSyntax kReasons = {.reads_reasoning = true};

TEST(AnswerParser, ReasoningStandsApart) {
  expect(kReasons, "<think>\nOne, two.\n</think>\n\nThree.\n", {"One, two.", "Three.\n", ""});
  expect(kReasons, "\n<think></think>Three.", {"", "Three.", ""});
  expect(kReasons, "[THINK]One[/THINK]Three.", {"One", "Three.", ""});
  expect(kReasons, "<seed:think>One</seed:think>Three.", {"One", "Three.", ""});
}

TEST(AnswerParser, OnlyAtTheStart) {
  expect(kReasons, "So <think>a</think>", {"", "So <think>a</think>", ""});
  expect(kReasons, "<thin ice", {"", "<thin ice", ""});
  expect(kReasons, "<think", {"", "<think", ""});
  expect(kReasons, "  \n", {"", "  \n", ""});
  expect({}, "<think>a</think>b", {"", "<think>a</think>b", ""});
}

TEST(AnswerParser, ThePromptMayHaveBegunIt) {
  AnswerSyntax syntax = kReasons;
  syntax.prompt_end = "<|im_start|>assistant\n<think>\n";
  expect(syntax, "One</think>\nThree.", {"One", "Three.", ""});
  expect(syntax, "One </thi", {"One </thi", "", ""});
  syntax.prompt_end = "<think>\n\n</think>\n\n";
  expect(syntax, "Three.", {"", "Three.", ""});
}

TEST(AnswerParser, ReasoningMayBeLeftOut) {
  AnswerSyntax syntax = kReasons;
  syntax.shows_reasoning = false;
  expect(syntax, "<think>One</think>Three.", {"", "Three.", ""});
  expect(syntax, "<think>One", {"", "", ""});
}

TEST(AnswerParser, CallsComeBehindReasoning) {
  AnswerSyntax syntax = kReasons;
  syntax.calls = find_call_format("hermes");
  syntax.tools = std::make_shared<Tools>();
  const std::string call = R"(<tool_call>{"name":"stop","arguments":{}}</tool_call>)";
  expect(syntax, "<think>" + call + "</think>" + call, {call, "", "stop{}"});
  expect(syntax, call + call, {"", "", "stop{}stop{}"});
  syntax.one_call = true;
  expect(syntax, call + call, {"", "", "stop{}"});
}

TEST(AnswerParser, KnowsWhetherAllCallsAreWhole) {
  AnswerSyntax syntax{.calls = find_call_format("hermes"), .tools = std::make_shared<Tools>()};
  AnswerParser parser(syntax);
  parser.push("Hm.");
  EXPECT_FALSE(parser.has_whole_calls());
  parser.push(R"(<tool_call>{"name":"stop","arguments":{)");
  EXPECT_FALSE(parser.has_whole_calls());
  parser.push("}}");
  EXPECT_TRUE(parser.has_whole_calls());
}

}  // namespace
}  // namespace outrider
