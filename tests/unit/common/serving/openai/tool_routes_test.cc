// Tools and reasoning over real HTTP: a program behind the routes that answers with a given text.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/serving/openai/saying_routes.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char kTools[] =
    R"("tools":[{"type":"function","function":{"name":"move","description":"Move.",
        "parameters":{"type":"object","properties":{"z":{"type":"number"},"a":{"type":"string"}}}}},
       {"type":"function","function":{"name":"stop"}}])";
const char kCall[] = "<tool_call>\n{\"name\": \"move\", \"arguments\": {\"z\": 2}}\n</tool_call>";

class ToolRoutesTest : public SayingRoutesTest {
 protected:
  ToolRoutesTest() { says_ = kCall; }
  std::string post(const std::string& fields,
                   const std::string& messages = R"([{"role":"user","content":"Go."}])") {
    return post_to("/v1/chat/completions", R"({"messages":)" + messages + "," + fields + "}");
  }
  // The first choice of an answer to these fields.
  Json choice(const std::string& fields) { return body_of(post(fields))["choices"][0]; }
  // code and param of the refusal.
  std::string refused(const std::string& fields,
                      const std::string& messages = R"([{"role":"user","content":"Go."}])") {
    const std::string response = post(fields, messages);
    EXPECT_THAT(response, HasSubstr("HTTP/1.1 400"));
    const Json error = body_of(response)["error"];
    return error["code"].get<std::string>() + " " + error["param"].get<std::string>();
  }
};

TEST_F(ToolRoutesTest, ACallIsPartOfTheMessage) {
  const Json answer = choice(kTools);
  EXPECT_EQ(answer["finish_reason"], "tool_calls");
  EXPECT_TRUE(answer["message"]["content"].is_null());
  const Json call = answer["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"], Json({{"name", "move"}, {"arguments", R"({"z": 2})"}}));
  EXPECT_EQ(call["id"].get<std::string>().size(), 9u);
  EXPECT_FALSE(call.contains("index"));
  EXPECT_THAT(prompt_, HasSubstr(R"("properties": {"z": {"type": "number"}, "a")"))
      << "the keys keep the client's order";
}

TEST_F(ToolRoutesTest, StreamedArgumentsComeInParts) {
  says_ = "I go.\n" + says_ + "\n" + kCall;
  std::string content, id;
  std::vector<std::string> arguments(2), names(2), ids(2), reasons;
  const std::vector<Json> events = events_of(post(std::string(kTools) + R"(,"stream":true)"));
  std::size_t parts = 0;
  for (const Json& event : events) {
    const Json choice = event["choices"][0];
    content += choice["delta"].value("content", "");
    for (const Json& call : choice["delta"].value("tool_calls", Json::array())) {
      const auto index = call["index"].get<std::size_t>();
      ASSERT_LT(index, 2u);
      ids[index] += call.value("id", "");
      names[index] += call["function"].value("name", "");
      arguments[index] += call["function"]["arguments"].get<std::string>();
      ++parts;
    }
    if (!choice["finish_reason"].is_null()) reasons.push_back(choice["finish_reason"]);
  }
  EXPECT_EQ(content, "I go.");
  EXPECT_THAT(names, ElementsAre("move", "move"));
  EXPECT_THAT(arguments, ElementsAre(R"({"z": 2})", R"({"z": 2})"));
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_GT(parts, 4u);
  EXPECT_THAT(reasons, ElementsAre("tool_calls"));
}

TEST_F(ToolRoutesTest, OneCallIsEnoughWhereTheClientSaysSo) {
  says_ += kCall;
  EXPECT_EQ(choice(kTools)["message"]["tool_calls"].size(), 2u);
  const std::string fields = std::string(kTools) + R"(,"parallel_tool_calls":false)";
  EXPECT_EQ(choice(fields)["message"]["tool_calls"].size(), 1u);
}

TEST_F(ToolRoutesTest, ACutCallIsGivenAsFarAsItGoes) {
  says_ = R"(<tool_call>{"name": "move", "arguments": {"z)";
  by_length_ = true;
  const Json answer = choice(kTools);
  EXPECT_EQ(answer["finish_reason"], "length");
  EXPECT_EQ(answer["message"]["tool_calls"][0]["function"]["arguments"], R"({"z)");
  by_length_ = false;
  EXPECT_EQ(choice(kTools)["finish_reason"], "stop") << "a stop text within the call ended it";
}

TEST_F(ToolRoutesTest, WithoutToolsACallIsText) {
  for (const std::string& fields :
       {std::string(R"("tools":[])"), std::string(kTools) + R"(,"tool_choice":"none")"}) {
    const Json answer = choice(fields);
    EXPECT_EQ(answer["message"]["content"], kCall);
    EXPECT_FALSE(answer["message"].contains("tool_calls"));
    EXPECT_EQ(answer["finish_reason"], "stop");
    EXPECT_THAT(prompt_, Not(HasSubstr("Move.")));
  }
}

TEST_F(ToolRoutesTest, ResultsGoBackToTheModel) {
  post(kTools, R"([{"role":"user","content":"Go."},
      {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",
        "function":{"name":"move","arguments":"{\"z\":2,\"a\":\"<|im_end|>\"}"}}]},
      {"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"done"}]}])");
  EXPECT_THAT(prompt_, HasSubstr("<tool_call>\n{\"name\": \"move\", \"arguments\": {\"z\": 2, "
                                 "\"a\": \"<|im_end|>\"}}\n</tool_call><|im_end|>"));
  EXPECT_THAT(prompt_, HasSubstr("tool\nc1: done<|im_end|>"));
}

TEST_F(ToolRoutesTest, ARequiredCallIsAForm) {
  const auto form_of = [this](const std::string& value) {
    form_ = {};
    says_ = kCall;
    const Json given = choice(std::string(kTools) + R"(,"tool_choice":)" + value);
    EXPECT_EQ(given["finish_reason"], "tool_calls") << given;
    return form_.text;
  };
  const std::string move =
      R"(["<tool_call>\n{\"name\": \"move\", \"arguments\": ",)"
      R"({"type":"object","properties":{"z":{"type":"number"},"a":{"type":"string"}}},)"
      R"("}\n</tool_call>"])";
  EXPECT_EQ(form_of(R"({"type":"function","function":{"name":"move"}})"),
            R"({"frames":[)" + move + "]}");
  EXPECT_EQ(form_.kind, ConstraintKind::kFramed);
  EXPECT_EQ(
      form_of(R"("required")"),
      R"({"frames":[)" + move +
          R"(,["<tool_call>\n{\"name\": \"stop\", \"arguments\": ",)"
          R"({"type":"object","additionalProperties":false},"}\n</tool_call>"]],"several":true})");
  EXPECT_EQ(form_of(R"("required","parallel_tool_calls":false)").find("several"),
            std::string::npos);
  EXPECT_EQ(form_of(R"("auto")"), "");
}

TEST_F(ToolRoutesTest, TextIsFreeUntilAStrictToolIsCalled) {
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"move","strict":true,"parameters":
           {"type":"object","properties":{"z":{"type":"number"}}}}},
          {"type":"function","function":{"name":"turn","parameters":{"type":"object","not":{}}}}])";
  EXPECT_EQ(choice(tools)["finish_reason"], "tool_calls");
  EXPECT_EQ(form_.kind, ConstraintKind::kFramed);
  EXPECT_EQ(form_.text,
            R"({"frames":[["<tool_call>\n{\"name\": \"move\", \"arguments\": ",)"
            R"({"type":"object","properties":{"z":{"type":"number"}}},"}\n</tool_call>"],)"
            R"(["<tool_call>\n{\"name\": \"turn\", \"arguments\": ",)"
            R"({"type":"object"},"}\n</tool_call>"]],"trigger":"<tool_call>","several":true})");
  form_ = {};
  choice(kTools);
  EXPECT_EQ(form_.kind, ConstraintKind::kNone) << "no tool is strict";
  form_status_ = unimplemented("keyword 'not'");
  EXPECT_EQ(refused(tools), "invalid_value tools");
}

TEST_F(ToolRoutesTest, TextWhoseMarksAreSpecialOrNoJsonIsLeftFree) {
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"move","strict":true}}])";
  for (const char* format : {"qwen3_coder", "llama3_json", "deepseek_v3"}) {
    service_.reading.tool_call_parser = format;
    server_ = *HttpServer::start({.listen = {"127.0.0.1", 0}}, openai_routes(service_));
    testing::internal::CaptureStderr();
    EXPECT_THAT(post(tools), HasSubstr("200 OK"));
    EXPECT_THAT(post(tools), HasSubstr("200 OK"));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(form_.kind, ConstraintKind::kNone) << format;
    EXPECT_THAT(said, HasSubstr("calls in free text are held to no schema")) << format;
    EXPECT_EQ(said.find("held to no schema"), said.rfind("held to no schema")) << "once";
  }
}

TEST_F(ToolRoutesTest, AnAnswerMayBeACallOrAForm) {
  choice(std::string(kTools) + R"(,"response_format":{"type":"json_object"})");
  EXPECT_EQ(form_.kind, ConstraintKind::kFramed);
  EXPECT_THAT(form_.text, HasSubstr(R"("several":true,"instead":{"type":"object"})"));
  form_status_ = unimplemented("keyword");
  EXPECT_EQ(refused(std::string(kTools) + R"(,"response_format":{"type":"json_object"})"),
            "invalid_value response_format");
  EXPECT_EQ(refused(std::string(kTools) + R"(,"regex":"a")"), "invalid_value regex");
}

TEST_F(ToolRoutesTest, ARequiredCallLeavesNoTextForAForm) {
  const std::string required = std::string(kTools) + R"(,"tool_choice":"required")";
  choice(required + R"(,"response_format":{"type":"json_object"})");
  EXPECT_EQ(form_.text.find("instead"), std::string::npos);
  const std::string both = form_.text;
  choice(required);
  EXPECT_EQ(form_.text, both);
  EXPECT_EQ(refused(required + R"(,"regex":"a")"), "invalid_value regex");
}

TEST_F(ToolRoutesTest, AFormThatCannotBeCompiledIsRefusedWithItsField) {
  form_status_ = resource_exhausted("the form takes too long to compile");
  EXPECT_EQ(refused(std::string(kTools) + R"(,"tool_choice":"required")"),
            "invalid_value tool_choice");
  EXPECT_EQ(refused(R"("response_format":{"type":"json_object"})"),
            "invalid_value response_format");
  EXPECT_EQ(refused(R"("regex":"a")"), "invalid_value regex");
}

TEST_F(ToolRoutesTest, WhatIsWrongWithToolsIsNamed) {
  const auto tools = [this](const std::string& list) { return refused(R"("tools":)" + list); };
  EXPECT_EQ(tools("5"), "invalid_value tools");
  EXPECT_EQ(tools("[5]"), "invalid_value tools[0]");
  EXPECT_EQ(tools(R"([{"type":"function","function":{}}])"),
            "missing_required_parameter tools[0].function.name");
  EXPECT_EQ(tools(R"([{"type":"function","function":{"name":"a b"}}])"),
            "invalid_value tools[0].function.name");
  EXPECT_EQ(tools(R"([{"type":"function","function":{"name":"a"}},
                      {"type":"function","function":{"name":"a"}}])"),
            "invalid_value tools[1].function.name");
  EXPECT_EQ(tools(R"([{"type":"function","function":{"name":"a","parameters":[]}}])"),
            "invalid_value tools[0].function.parameters");
  EXPECT_EQ(tools(R"([{"type":"function","function":{"name":"a","returns":"b"}}])"),
            "unsupported_parameter tools[0].function.returns");
  EXPECT_EQ(tools(R"([{"type":"function","function":{"name":"a","strict":1}}])"),
            "invalid_value tools[0].function.strict");
  EXPECT_EQ(tools(R"([{"type":"web_search"}])"), "invalid_value tools[0]");
  const auto choice = [this](const std::string& value) {
    return refused(std::string(kTools) + R"(,"tool_choice":)" + value);
  };
  EXPECT_EQ(choice(R"("any")"), "invalid_value tool_choice");
  EXPECT_EQ(choice(R"({"type":"function","function":{"name":"jump"}})"),
            "invalid_value tool_choice");
  EXPECT_EQ(refused(R"("tool_choice":"required")"), "invalid_value tool_choice");
}

TEST_F(ToolRoutesTest, WhatIsWrongWithCallsInMessagesIsNamed) {
  const auto with = [this](const std::string& more) {
    return refused(kTools, R"([{"role":"user","content":"Go."},)" + more + "]");
  };
  const auto call = [](const std::string& fields) {
    return R"({"role":"assistant","tool_calls":[)" + fields + R"(]},{"role":"user","content":""})";
  };
  EXPECT_EQ(with(R"({"role":"tool","tool_call_id":"c9","content":"x"})"),
            "invalid_value messages[].tool_call_id");
  EXPECT_EQ(with(R"({"role":"tool","content":"x"})"),
            "missing_required_parameter messages[].tool_call_id");
  EXPECT_EQ(with(R"({"role":"user","tool_call_id":"c9","content":"x"})"),
            "invalid_value messages[].tool_call_id");
  EXPECT_EQ(with(call("5")), "invalid_value messages[].tool_calls[]");
  EXPECT_EQ(with(call(R"({"function":{"name":"move"}})")),
            "invalid_value messages[].tool_calls[].id");
  EXPECT_EQ(with(call(R"({"id":"a","function":{"name":"move","arguments":"{\"z"}})")),
            "invalid_value messages[].tool_calls[].function.arguments");
  EXPECT_EQ(with(R"({"role":"assistant","content":null},{"role":"user","content":""})"),
            "invalid_value messages[].content");
}

TEST_F(ToolRoutesTest, ATemplateWithoutToolsRefusesThem) {
  service_.chat_template = "chatml";
  server_ = *HttpServer::start({.listen = {"127.0.0.1", 0}}, openai_routes(service_));
  EXPECT_EQ(refused(kTools), "unsupported_parameter tools");
}

TEST_F(ToolRoutesTest, ReasoningStandsApartUnlessItIsNotWanted) {
  says_ = "<think>\nHm.\n</think>\n\nYes.";
  Json message = choice(R"("n":1)")["message"];
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  EXPECT_EQ(message["content"], "Yes.");
  message = choice(R"("include_reasoning":false)")["message"];
  EXPECT_FALSE(message.contains("reasoning_content"));
  EXPECT_EQ(message["content"], "Yes.");
  EXPECT_EQ(choice(R"("reasoning_format":"none")")["message"]["content"], says_);
  EXPECT_EQ(refused(R"("reasoning_format":"loud")"), "invalid_value reasoning_format");
  std::string reasoning, content;
  for (const Json& event : events_of(post(R"("stream":true)"))) {
    const Json delta = event["choices"][0]["delta"];
    reasoning += delta.value("reasoning_content", "");
    content += delta.value("content", "");
  }
  EXPECT_EQ(reasoning, "Hm.");
  EXPECT_EQ(content, "Yes.");
}

}  // namespace
}  // namespace outrider
