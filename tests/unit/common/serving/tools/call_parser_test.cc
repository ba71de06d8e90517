// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/call_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Read {
  std::string text;
  std::vector<std::string> calls;  // name, and the arguments
  bool whole = true;
  friend bool operator==(const Read&, const Read&) = default;
};

std::shared_ptr<const Tools> robot_tools() {
  const auto parameters = nlohmann::ordered_json::parse(
      R"({"type":"object","properties":{"x":{"type":"number"},"note":{"type":"string"}}})");
  return std::make_shared<Tools>(
      Tools{{"move", parameters}, {"stop", nullptr}, {"say", parameters}});
}

// cut: the length of the next piece.
Read read(const std::string& format, const std::string& text,
          const std::function<std::size_t()>& cut) {
  CallParser parser(*find_call_format(format), robot_tools());
  CallDeltas calls;
  Read all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(cut(), text.size() - at);
    all.text += parser.push(text.substr(at, length), calls);
    at += length;
  }
  all.text += parser.finish(calls);
  for (const CallDelta& delta : calls.take()) {
    if (!delta.name.empty()) all.calls.push_back(delta.name);
    all.calls.back() += delta.arguments;
  }
  all.whole = calls.all_ended();
  return all;
}

// However the text is cut, the same is read.
Read read(const std::string& format, const std::string& text) {
  const Read whole = read(format, text, [] { return std::size_t{1} << 20; });
  EXPECT_EQ(read(format, text, [] { return std::size_t{1}; }), whole) << text;
  std::mt19937 random(7);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(read(format, text, [&] { return 1 + random() % 9; }), whole) << text;
  }
  return whole;
}

TEST(CallParser, ReadsCallsInABlockOfMarkdown) {
  const std::string move = R"({"name": "move", "arguments": {"x": 2}})";
  for (const std::string& block : {move, move + "\n" + move, "[" + move + ", " + move + "]"}) {
    const Read got = read("hermes", "```json\n" + block + "\n```\nThen I stop.");
    EXPECT_EQ(got.text, "Then I stop.") << block;
    EXPECT_THAT(got.calls, testing::Each(R"(move{"x": 2})"));
    EXPECT_EQ(got.calls.size(), block == move ? 1 : 2);
  }
  for (const std::string text :
       {"```json\n{\"x\": 2}\n```", "```", "```json\n", "```python\n{}\n```",
        "```json\n{\"name\": \"cook\", \"arguments\": {}}\n```"}) {
    EXPECT_EQ(read("hermes", text), (Read{.text = text, .calls = {}})) << "of no tool";
  }
}

TEST(CallParser, ShowsOtherJsonAsItComes) {
  CallParser parser(*find_call_format("hermes"), robot_tools());
  CallDeltas calls;
  EXPECT_EQ(parser.push(R"({"colour":)", calls), R"({"colour":)");
  EXPECT_EQ(parser.push(R"( "red", "name": "move"})", calls), R"( "red", "name": "move"})");
  const Read cut = read("hermes", "```json\n{\"name\": \"stop\", \"arguments\": {}}");
  EXPECT_THAT(cut.calls, ElementsAre("stop{}")) << "without the block's end";
  EXPECT_EQ(cut.text, "");
}

TEST(CallParser, ReadsCallsWithoutMarksAndInDoubleBraces) {
  const std::string look = R"({"name": "stop", "arguments": {}})";
  const std::string move = R"({"name": "move", "arguments": {"x": 2}})";
  for (const std::string& text :
       {look + "\n" + move, "{" + look + "}\n{" + move + "}",
        "<tool_call>\n{" + look + "}\n</tool_call>\n<tool_call>\n{" + move + "}\n</tool_call>"}) {
    const Read got = read("hermes", text);
    EXPECT_EQ(got.text, "");
    EXPECT_THAT(got.calls, ElementsAre("stop{}", R"(move{"x": 2})")) << text;
    EXPECT_TRUE(got.whole);
  }
  for (const std::string text : {R"({"name": "cook", "arguments": {}})", R"({{"name": "cook"}})",
                                 "{", "{{", R"({"x": 2})"}) {
    EXPECT_EQ(read("hermes", text), (Read{.text = text, .calls = {}})) << "of no tool";
  }
}

TEST(CallParser, ReadsACallInEachForm) {
  const std::vector<std::pair<std::string, std::string>> written = {
      {"hermes", "<tool_call>\n{\"name\": \"move\", \"arguments\": {\"x\": 2}}\n</tool_call>"},
      {"mistral", R"([TOOL_CALLS][{"name": "move", "arguments": {"x": 2}, "id": "abcdefghi"}])"},
      {"mistral", R"([TOOL_CALLS]move[ARGS]{"x": 2})"},
      {"mistral", R"([TOOL_CALLS]move[CALL_ID]abcdefghi[ARGS]{"x": 2})"},
      {"granite", R"(<|tool_call|>[{"name": "move", "arguments": {"x": 2}}])"},
      {"llama3_json", R"({"name": "move", "parameters": {"x": 2}})"},
      {"llama3_json", R"(<|python_tag|>{"name": "move", "parameters": {"x": 2}})"},
      {"functionary_v3_1", R"(<function=move>{"x": 2}</function>)"},
      {"functionary_v3_2", "move\n{\"x\": 2}"},
      {"functionary_v3_2", ">>>move\n{\"x\": 2}"},
      {"lfm2", "<|tool_call_start|>[move(x=2)]<|tool_call_end|>"},
      {"pythonic", "[move(x=2)]"},
      {"apriel", R"(<tool_calls>[{"name": "move", "arguments": {"x": 2}}]</tool_calls>)"},
      {"nemotron_v2", R"(<TOOLCALL>[{"name": "move", "arguments": {"x": 2}}]</TOOLCALL>)"},
      {"cohere", R"(<|START_ACTION|>[
    {"tool_call_id": "0", "tool_name": "move", "parameters": {"x": 2}}
]<|END_ACTION|>)"},
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>move\n"
       "```json\n{\"x\": 2}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"deepseek_v31",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>move<｜tool▁sep｜>{\"x\": 2}"
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"kimi_k2",
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.move:0"
       "<|tool_call_argument_begin|>{\"x\": 2}<|tool_call_end|><|tool_calls_section_end|>"},
      {"qwen3_coder",
       "<tool_call>\n<function=move>\n<parameter=x>\n2\n</parameter>\n</function>\n</tool_call>"},
      {"seed_oss",
       "<seed:tool_call>\n<function=move>\n<parameter=x>2</parameter>\n</function>\n"
       "</seed:tool_call>"},
      {"minimax_m2",
       "<minimax:tool_call>\n<invoke name=\"move\">\n<parameter name=\"x\">2</parameter>\n"
       "</invoke>\n</minimax:tool_call>"},
      {"glm45", "<tool_call>move\n<arg_key>x</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"},
  };
  std::set<std::string> seen;
  for (const auto& [format, text] : written) {
    seen.insert(format);
    const Read got = read(format, text);
    EXPECT_EQ(got.text, "") << format << " " << text;
    ASSERT_EQ(got.calls.size(), 1u) << format << " " << text;
    EXPECT_THAT(got.calls[0], testing::AnyOf(R"(move{"x": 2})", R"(move{"x":2})")) << format;
    EXPECT_TRUE(got.whole) << format;
  }
  for (const CallFormat& format : call_formats()) {
    EXPECT_TRUE(seen.contains(std::string(format.name))) << format.name << " has no example";
  }
}

TEST(CallParser, ReadsSeveralCallsAndTheTextAroundThem) {
  const std::string call = R"({"name": "stop", "arguments": {}})";
  Read got = read("hermes",
                  "I go.\n<tool_call>\n{\"name\": \"move\", \"arguments\": {\"x\": -1.5}}\n"
                  "</tool_call>\n<tool_call>\n" +
                      call + "\n</tool_call>\nDone.");
  EXPECT_EQ(got.text, "I go.Done.");
  EXPECT_THAT(got.calls, ElementsAre(R"(move{"x": -1.5})", "stop{}"));
  got = read("hermes", "<tool_call>" + call + "\n" + call + "</tool_call>");
  EXPECT_THAT(got.calls, ElementsAre("stop{}", "stop{}")) << "two objects in one mark";
  got = read(
      "mistral",
      R"(Yes.[TOOL_CALLS][{"name":"stop","arguments":{}}, {"arguments":{"x":1},"name":"move"}])");
  EXPECT_EQ(got.text, "Yes.");
  EXPECT_THAT(got.calls, ElementsAre("stop{}", R"(move{"x":1})")) << "arguments before the name";
  got = read("mistral", "[TOOL_CALLS]stop[ARGS]{}[TOOL_CALLS]move[ARGS]{\"x\":1}");
  EXPECT_THAT(got.calls, ElementsAre("stop{}", R"(move{"x":1})"));
  got = read("llama3_json",
             R"({"name":"stop","parameters":{}}; {"name":"move","parameters":{"x":1}})");
  EXPECT_THAT(got.calls, ElementsAre("stop{}", R"(move{"x":1})"));
  got = read("pythonic", R"([stop(), say(note="a, \"b\" [c", x=1.5)])");
  EXPECT_THAT(got.calls, ElementsAre("stop{}", R"(say{"note":"a, \"b\" [c","x":1.5})"));
  got = read("functionary_v3_2", "all\nI go.>>>stop\n{}");
  EXPECT_EQ(got.text, "I go.");
  EXPECT_THAT(got.calls, ElementsAre("stop{}"));
  got = read("qwen3_coder",
             "Well.\n<tool_call>\n<function=stop>\n</function>\n</tool_call>\n<tool_call>\n"
             "<function=say>\n<parameter=note>\n12\n</parameter>\n<parameter=x>\n[1, {\"a\": 2}]\n"
             "</parameter>\n</function>\n</tool_call>");
  EXPECT_EQ(got.text, "Well.");
  EXPECT_THAT(got.calls, ElementsAre("stop{}", R"(say{"note": "12", "x": [1,{"a":2}]})"))
      << "a text where the schema says so";
}

TEST(CallParser, ArgumentsAreTheModelsOwnJson) {
  const auto hermes = [](const std::string& object) {
    return read("hermes", "<tool_call>" + object + "</tool_call>");
  };
  EXPECT_THAT(hermes(R"({"name":"say","arguments":{"note":"}]\"</tool_call>\\"}})").calls,
              ElementsAre(R"(say{"note":"}]\"</tool_call>\\"})"));
  EXPECT_THAT(hermes(R"({"name":"say","arguments":"{\"x\": 1}"})").calls,
              ElementsAre(R"(say{"x": 1})"))
      << "written as a text";
  EXPECT_THAT(hermes(R"({"name":"stop"})").calls, ElementsAre("stop{}"));
  EXPECT_THAT(hermes(R"({"name":"stop","arguments":null})").calls, ElementsAre("stop{}"));
  EXPECT_THAT(hermes(R"({"id":{"name":"x"},"name":"stop","arguments":{"name":"y"}})").calls,
              ElementsAre(R"(stop{"name":"y"})"));
  EXPECT_THAT(hermes(R"([{"name":"unknown","arguments":{"x":[1,[2]]}}])").calls,
              ElementsAre(R"(unknown{"x":[1,[2]]})"));
}

TEST(CallParser, ACallThatIsCutIsGivenAsFarAsItGoes) {
  Read got = read("hermes", R"(<tool_call>{"name": "say", "arguments": {"note": "he)");
  EXPECT_THAT(got.calls, ElementsAre(R"(say{"note": "he)"));
  EXPECT_FALSE(got.whole);
  got = read("glm45", "<tool_call>move\n<arg_key>x</arg_key>\n<arg_value>2</arg_value>\n<arg_k");
  EXPECT_THAT(got.calls, ElementsAre(R"(move{"x": 2)"));
  EXPECT_FALSE(got.whole);
  got = read("hermes", R"(<tool_call>{"na)");
  EXPECT_EQ(got.text, R"(<tool_call>{"na)") << "no call has begun";
  EXPECT_THAT(got.calls, IsEmpty());
  got = read("hermes", R"(<tool_call>{"name":"stop","arguments":{}})");
  EXPECT_THAT(got.calls, ElementsAre("stop{}"));
  EXPECT_TRUE(got.whole) << "only the mark is missing";
}

TEST(CallParser, WhatIsNoCallIsText) {
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"hermes", "Just a text, a < b, <tool> and { \"name\": 5 }\n\n"},
      {"hermes", "<tool_call>nothing</tool_call>"},
      {"hermes", R"(<tool_call>{"x": 1}</tool_call>)"},
      {"hermes", "<tool_call>{name: 'move'}</tool_call>"},
      {"hermes", "The end <tool_ca"},
      {"llama3_json", R"({"name": "Ada", "parameters": {"x": 2}} is a record)"},
      {"llama3_json", R"({"answer": 42})"},
      {"llama3_json", "{"},
      {"llama3_json", R"(See {"name": "move", "parameters": {"x": 2}})"},
      {"pythonic", "[1, 2, 3] is a list"},
      {"pythonic", "[move]"},
      {"functionary_v3_2", "moved along\nand on"},
      {"functionary_v3_1", "if a <function=b c>d"},
      {"qwen3_coder", "<tool_call> is how they begin"},
  };
  for (const auto& [format, text] : texts) {
    const Read got = read(format, text);
    EXPECT_THAT(got.calls, IsEmpty()) << text;
    std::string expected = text;
    if (format == "qwen3_coder") expected = "<tool_call>is how they begin";
    EXPECT_EQ(got.text, expected) << format;
  }
}

TEST(CallParser, StreamsArgumentsAsTheyAreWritten) {
  CallParser parser(*find_call_format("hermes"), robot_tools());
  CallDeltas calls;
  parser.push(R"(<tool_call>{"name": "say", "arguments": {"note": "he)", calls);
  std::vector<CallDelta> deltas = calls.take();
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].name, "say");
  EXPECT_EQ(deltas[0].arguments, R"({"note": "he)");
  parser.push("llo", calls);
  deltas = calls.take();
  ASSERT_EQ(deltas.size(), 1u);
  EXPECT_EQ(deltas[0].name, "");
  EXPECT_EQ(deltas[0].index, 0u);
  EXPECT_EQ(deltas[0].arguments, "llo");
}

TEST(CallFormats, NamesAreUniqueAndListed) {
  for (const CallFormat& format : call_formats()) {
    EXPECT_EQ(find_call_format(format.name), &format);
    EXPECT_THAT(call_format_names(), HasSubstr(std::string(format.name)));
    EXPECT_TRUE(format.bare || !format.open.empty()) << format.name;
  }
  EXPECT_EQ(find_call_format(""), nullptr);
}

}  // namespace
}  // namespace outrider
