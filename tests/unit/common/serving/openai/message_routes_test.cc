// Anthropic's messages over real HTTP: the same answers as chats have, in their own form.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/serving/openai/saying_routes.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char kMessageTools[] =
    R"(,"tools":[{"name":"move","description":"Move.","input_schema":
         {"type":"object","properties":{"z":{"type":"number"}}}},{"type":"custom","name":"stop"}])";
const char kToolsOfChats[] =
    R"(,"tools":[{"type":"function","function":{"name":"move","description":"Move.","parameters":
         {"type":"object","properties":{"z":{"type":"number"}}}}},
       {"type":"function","function":{"name":"stop"}}])";
const char kCallOfMove[] =
    "<tool_call>\n{\"name\": \"move\", \"arguments\": {\"z\": 2}}\n</tool_call>";
const char kGoMessages[] = R"([{"role":"user","content":"Go."}])";

class MessageRoutesTest : public SayingRoutesTest {
 protected:
  MessageRoutesTest() { says_ = "I go."; }
  std::string post(const std::string& fields, const std::string& messages = kGoMessages) {
    return post_to("/v1/messages", R"({"max_tokens":9,"messages":)" + messages + fields + "}");
  }
  Json answer(const std::string& fields, const std::string& messages = kGoMessages) {
    return body_of(post(fields, messages));
  }
  // The field that is refused, in Anthropic's form.
  std::string refused(const std::string& fields, const std::string& messages = kGoMessages) {
    const std::string response = post(fields, messages);
    EXPECT_THAT(response, HasSubstr("HTTP/1.1 400"));
    const Json body = body_of(response);
    EXPECT_EQ(body["type"], "error");
    EXPECT_EQ(body["error"]["type"], "invalid_request_error");
    EXPECT_THAT(body["error"]["message"].get<std::string>(), Not(testing::IsEmpty()));
    return body["error"]["param"].get<std::string>();
  }
  std::string prompt_of_chat(const std::string& messages, const std::string& more = "") {
    post_to("/v1/chat/completions", R"({"messages":)" + messages + more + "}");
    return prompt_;
  }
};

TEST_F(MessageRoutesTest, AnAnswerIsABlockOfText) {
  const Json message = answer(R"(,"model":"any","metadata":{"user_id":"a"},"top_k":5)");
  EXPECT_THAT(message["id"].get<std::string>(), testing::StartsWith("msg_"));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["model"], "robot");
  EXPECT_EQ(message["content"], Json::parse(R"([{"type":"text","text":"I go."}])"));
  EXPECT_EQ(message["stop_reason"], "end_turn");
  EXPECT_TRUE(message["stop_sequence"].is_null());
  EXPECT_EQ(message["usage"]["output_tokens"], 9);
  by_length_ = true;
  EXPECT_EQ(answer("")["stop_reason"], "max_tokens");
  by_length_ = false;
  says_ = "";
  EXPECT_EQ(answer("")["content"], Json::parse(R"([{"type":"text","text":""}])"));
}

TEST_F(MessageRoutesTest, TheConversationIsTheSameAsAChats) {
  answer(R"(,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}])");
  const std::string brief = prompt_;
  EXPECT_EQ(brief,
            prompt_of_chat(
                R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Go."}])"));
  answer(kMessageTools,
         R"([{"role":"user","content":[{"type":"text","text":"G"},{"type":"text","text":"o."}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},
        {"type":"text","text":"I move."},
        {"type":"tool_use","id":"c1","name":"move","input":{"z":2}},
        {"type":"tool_use","id":"c2","name":"stop","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"done"},
        {"type":"tool_result","tool_use_id":"c2","is_error":true,
         "content":[{"type":"text","text":"stuck"}]},
        {"type":"text","text":"And now?"}]}])");
  const std::string with_calls = prompt_;
  EXPECT_EQ(with_calls, prompt_of_chat(R"([{"role":"user","content":"Go."},
      {"role":"assistant","content":"I move.","tool_calls":[
        {"id":"c1","type":"function","function":{"name":"move","arguments":"{\"z\":2}"}},
        {"id":"c2","type":"function","function":{"name":"stop","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"done"},
      {"role":"tool","tool_call_id":"c2","content":"Error: stuck"},
      {"role":"user","content":"And now?"}])",
                                       kToolsOfChats));
}

TEST_F(MessageRoutesTest, ACallIsABlockWithItsInput) {
  says_ = std::string("I move. ") + kCallOfMove;
  const Json message = answer(kMessageTools);
  EXPECT_EQ(message["stop_reason"], "tool_use");
  ASSERT_EQ(message["content"].size(), 2u);
  const Json call = message["content"][1];
  EXPECT_EQ(call["type"], "tool_use");
  EXPECT_EQ(call["name"], "move");
  EXPECT_EQ(call["input"], Json({{"z", 2}}));
  EXPECT_THAT(call["id"].get<std::string>(), Not(testing::IsEmpty()));
  // The token limit cuts it: what there is of its arguments is no object.
  by_length_ = true;
  says_ = says_.substr(0, says_.size() - 16);
  const Json cut = answer(kMessageTools);
  EXPECT_EQ(cut["stop_reason"], "max_tokens");
  EXPECT_EQ(cut["content"].back()["input"], Json::object());
}

TEST_F(MessageRoutesTest, AStreamBuildsTheBlocksOneAfterTheOther) {
  says_ = std::string("<think>\nHm.\n</think>\nI move. ") + kCallOfMove;
  const std::string fields = std::string(kMessageTools) + R"(,"thinking":{"type":"adaptive"})";
  const std::string response = post(fields + R"(,"stream":true)");
  const std::vector<Json> events = events_of(response);
  ASSERT_GT(events.size(), 8u);
  EXPECT_EQ(events[0]["type"], "message_start");
  EXPECT_GT(events[0]["message"]["usage"]["input_tokens"], 0);
  EXPECT_EQ(events[1]["type"], "ping");
  EXPECT_EQ(events.back()["type"], "message_stop");
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], "tool_use");
  Json content = Json::array();
  std::string input;
  int open = -1;
  for (const Json& event : events) {
    const std::string type = event["type"];
    EXPECT_THAT(response, HasSubstr("event: " + type + "\ndata: "));
    if (type == "content_block_start") {
      EXPECT_EQ(event["index"], content.size());
      open = event["index"];
      content.push_back(event["content_block"]);
      continue;
    }
    if (type == "content_block_stop") {
      EXPECT_EQ(event["index"], open);
      open = -1;
    }
    if (type != "content_block_delta") continue;
    EXPECT_EQ(event["index"], open);
    Json& block = content.back();
    const std::string kind = block["type"];
    if (kind == "tool_use") {
      EXPECT_EQ(event["delta"]["type"], "input_json_delta");
      input += event["delta"]["partial_json"].get<std::string>();
    } else {
      EXPECT_EQ(event["delta"]["type"], kind + "_delta");
      block[kind] = block[kind].get<std::string>() + event["delta"][kind].get<std::string>();
    }
  }
  EXPECT_EQ(open, -1);
  ASSERT_EQ(content.size(), 3u);
  content[2]["input"] = Json::parse(input);
  Json whole = answer(fields)["content"];
  for (Json* each : {&content[2], &whole[2]}) each->erase("id");
  EXPECT_EQ(content, whole);
  EXPECT_EQ(whole[0]["thinking"], "Hm.");
}

TEST_F(MessageRoutesTest, ThinkingIsShownWhereItIsAskedFor) {
  says_ = "<think>\nHm.\n</think>\nI go.";
  const auto types = [this](const std::string& fields) {
    std::vector<std::string> all;
    const Json message = answer(fields);
    for (const Json& block : message["content"]) all.push_back(block["type"]);
    return all;
  };
  EXPECT_THAT(types(""), ElementsAre("text"));
  EXPECT_THAT(types(R"(,"thinking":{"type":"disabled"})"), ElementsAre("text"));
  EXPECT_THAT(types(R"(,"thinking":{"type":"enabled"})"), ElementsAre("thinking", "text"));
  EXPECT_THAT(types(R"(,"thinking":{"type":"adaptive","display":"omitted"})"), ElementsAre("text"));
}

TEST_F(MessageRoutesTest, ChoicesOfToolsAndFormsHoldTheAnswer) {
  says_ = kCallOfMove;
  answer(std::string(kMessageTools) + R"(,"tool_choice":{"type":"tool","name":"move"})");
  EXPECT_EQ(form_.kind, ConstraintKind::kFramed);
  form_ = {};
  answer(std::string(kMessageTools) +
         R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})");
  EXPECT_EQ(form_.kind, ConstraintKind::kFramed);
  form_ = {};
  EXPECT_EQ(answer(std::string(kMessageTools) +
                   R"(,"tool_choice":{"type":"none"})")["content"][0]["type"],
            "text");
  EXPECT_EQ(form_.kind, ConstraintKind::kNone);
  answer(R"(,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}})");
  EXPECT_EQ(form_.kind, ConstraintKind::kJsonSchema);
}

TEST_F(MessageRoutesTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(refused(R"(,"thinking":{"type":"enabled","budget_tokens":1024})"),
            "thinking.budget_tokens");
  EXPECT_EQ(refused(R"(,"thinking":{"type":"often"})"), "thinking");
  EXPECT_EQ(refused(R"(,"output_config":{"effort":"high"})"), "output_config.effort");
  EXPECT_EQ(refused(R"(,"mcp_servers":[{"url":"x"}])"), "mcp_servers");
  EXPECT_EQ(refused(R"(,"stop_sequences":"x")"), "stop_sequences");
  EXPECT_EQ(refused(R"(,"stop":["x"])"), "stop");
  EXPECT_EQ(refused(R"(,"service_tier":"priority")"), "service_tier");
  EXPECT_EQ(refused(R"(,"system":[{"type":"image"}])"), "system[].type");
  EXPECT_EQ(refused(R"(,"tools":[{"type":"bash_20250124","name":"bash"}])"), "tools[0]");
  EXPECT_EQ(refused(R"(,"tools":[{"name":"a","input_schema":5}])"), "tools[0].input_schema");
  EXPECT_EQ(refused(R"(,"tools":[{"name":"a"},{"name":"a"}])"), "tools[1].name");
  EXPECT_EQ(refused(std::string(kMessageTools) + R"(,"tool_choice":"auto")"), "tool_choice");
  EXPECT_EQ(refused(std::string(kMessageTools) + R"(,"tool_choice":{"type":"tool","name":"jump"})"),
            "tool_choice");
  EXPECT_EQ(refused("", "null"), "messages");
  EXPECT_EQ(refused(R"(,"system":"Be brief.")", "null"), "messages");
  EXPECT_EQ(refused("", R"([{"role":"user","content":[]}])"), "messages");
  EXPECT_EQ(refused("", R"([{"role":"assistant","content":"I"}])"), "messages");
  EXPECT_EQ(refused("", R"([{"role":"tool","content":"a"}])"), "messages[0].role");
  EXPECT_EQ(refused("", R"([{"role":"user","content":[{"type":"image","source":{}}]}])"),
            "messages[0].content[0].type");
  EXPECT_EQ(
      refused("", R"([{"role":"user","content":[{"type":"tool_result","tool_use_id":"c9"}]}])"),
      "messages[0].content[0].tool_use_id");
}

TEST_F(MessageRoutesTest, AFailedStreamEndsWithAnErrorOfItsForm) {
  form_status_ = invalid_argument("no such form");
  EXPECT_EQ(refused(R"(,"output_config":{"format":{"type":"json_schema","schema":{}}})"),
            "output_config.format");
}

}  // namespace
}  // namespace outrider
