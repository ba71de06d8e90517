// Responses over real HTTP: the same answers as chats have, in their own form.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/serving/openai/saying_routes.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char kFunctions[] =
    R"(,"tools":[{"type":"function","name":"move","description":"Move.","parameters":
         {"type":"object","properties":{"z":{"type":"number"}}}},{"type":"function","name":"stop"}])";
const char kMoveCall[] =
    "<tool_call>\n{\"name\": \"move\", \"arguments\": {\"z\": 2}}\n</tool_call>";

class ResponseRoutesTest : public SayingRoutesTest {
 protected:
  ResponseRoutesTest() { says_ = "I go."; }
  std::string post(const std::string& fields, const std::string& input = R"("Go.")") {
    return post_to("/v1/responses", R"({"input":)" + input + fields + "}");
  }
  Json answer(const std::string& fields, const std::string& input = R"("Go.")") {
    return body_of(post(fields, input));
  }
  // code and param of the refusal.
  std::string refused(const std::string& fields, const std::string& input = R"("Go.")") {
    const std::string response = post(fields, input);
    EXPECT_THAT(response, HasSubstr("HTTP/1.1 400"));
    const Json error = body_of(response)["error"];
    return error["code"].get<std::string>() + " " + error["param"].get<std::string>();
  }
  // The prompt that a chat with these messages has.
  std::string prompt_of_chat(const std::string& messages, const std::string& more = "") {
    post_to("/v1/chat/completions", R"({"messages":)" + messages + more + "}");
    return prompt_;
  }
};

TEST_F(ResponseRoutesTest, AnAnswerIsAMessage) {
  const Json response = answer(R"(,"metadata":{"a":"b"},"max_output_tokens":9)");
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["metadata"], Json({{"a", "b"}}));
  EXPECT_EQ(response["max_output_tokens"], 9);
  EXPECT_EQ(response["text"]["format"]["type"], "text");
  EXPECT_EQ(response["usage"]["output_tokens"], 9);
  EXPECT_EQ(response["usage"]["input_tokens_details"]["cached_tokens"], 0);
  ASSERT_EQ(response["output"].size(), 1u);
  const Json item = response["output"][0];
  EXPECT_EQ(item["type"], "message");
  EXPECT_EQ(item["role"], "assistant");
  EXPECT_EQ(item["content"][0]["type"], "output_text");
  EXPECT_EQ(item["content"][0]["text"], "I go.");
  says_ = "";
  EXPECT_EQ(answer("")["output"][0]["content"][0]["text"], "");
}

TEST_F(ResponseRoutesTest, TheTokenLimitLeavesItIncomplete) {
  by_length_ = true;
  const Json response = answer("");
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(response["output"][0]["status"], "incomplete");
}

TEST_F(ResponseRoutesTest, InputIsTheSameConversationAsAChats) {
  answer(R"(,"instructions":"Be brief.")");
  const std::string brief = prompt_;
  EXPECT_EQ(brief,
            prompt_of_chat(
                R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Go."}])"));
  answer(kFunctions, R"([{"role":"user","content":[{"type":"input_text","text":"G"},
        {"type":"input_text","text":"o."}]},
      {"type":"reasoning","id":"rs_1","summary":[]},
      {"type":"message","role":"assistant","id":"msg_1","status":"completed",
        "content":[{"type":"output_text","text":"I go.","annotations":[],"logprobs":[]}]},
      {"type":"function_call","id":"fc_1","call_id":"c1","name":"move","arguments":"{\"z\":2}"},
      {"type":"function_call","call_id":"c2","name":"stop","arguments":"{}"},
      {"type":"function_call_output","call_id":"c1","output":"done"},
      {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"ok"}]}])");
  const std::string from_items = prompt_;
  EXPECT_EQ(
      from_items,
      prompt_of_chat(
          R"([{"role":"user","content":"Go."},{"role":"assistant","content":"I go.","tool_calls":[
               {"id":"c1","type":"function","function":{"name":"move","arguments":"{\"z\":2}"}},
               {"id":"c2","type":"function","function":{"name":"stop","arguments":"{}"}}]},
              {"role":"tool","tool_call_id":"c1","content":"done"},
              {"role":"tool","tool_call_id":"c2","content":"ok"}])",
          R"(,"tools":[{"type":"function","function":{"name":"move","description":"Move.","parameters":
              {"type":"object","properties":{"z":{"type":"number"}}}}},
              {"type":"function","function":{"name":"stop"}}])"));
}

TEST_F(ResponseRoutesTest, ReasoningTextAndCallsAreItems) {
  says_ = "<think>\nHm.\n</think>\n\nI go.\n" + std::string(kMoveCall) + kMoveCall;
  const Json output = answer(kFunctions)["output"];
  ASSERT_EQ(output.size(), 4u) << output;
  EXPECT_EQ(output[0]["type"], "reasoning");
  EXPECT_EQ(output[0]["content"][0], Json({{"type", "reasoning_text"}, {"text", "Hm."}}));
  EXPECT_EQ(output[1]["content"][0]["text"], "I go.");
  EXPECT_EQ(output[2]["type"], "function_call");
  EXPECT_EQ(output[2]["name"], "move");
  EXPECT_EQ(output[2]["arguments"], R"({"z": 2})");
  EXPECT_EQ(output[2]["status"], "completed");
  EXPECT_NE(output[2]["call_id"], output[3]["call_id"]);
  EXPECT_NE(output[2]["id"], output[3]["id"]);
}

// Whatever the items are, events build the same response as a whole answer has.
TEST_F(ResponseRoutesTest, EventsBuildTheSameResponse) {
  says_ = "<think>\nHm.\n</think>\n\nI go.\n" + std::string(kMoveCall) + kMoveCall;
  const Json whole = answer(kFunctions);
  Json built = Json::array(), last;
  std::vector<std::string> types;
  std::uint64_t number = 0;
  for (const Json& event : events_of(post(std::string(kFunctions) + R"(,"stream":true)"))) {
    const auto type = event["type"].get<std::string>();
    EXPECT_EQ(event["sequence_number"], number++);
    if (types.empty() || types.back() != type) types.push_back(type);
    if (type == "response.output_item.added") {
      EXPECT_EQ(event["output_index"], built.size());
      built.push_back(event["item"]);
    } else if (type == "response.content_part.added") {
      built.back()["content"].push_back(event["part"]);
    } else if (type.ends_with("_text.delta")) {
      Json& text = built.back()["content"][0]["text"];
      text = text.get<std::string>() + event["delta"].get<std::string>();
      EXPECT_EQ(event["item_id"], built.back()["id"]);
    } else if (type == "response.function_call_arguments.delta") {
      Json& arguments = built.back()["arguments"];
      arguments = arguments.get<std::string>() + event["delta"].get<std::string>();
    } else if (type == "response.output_item.done") {
      built.back()["status"] = event["item"]["status"];
      EXPECT_EQ(built.back(), event["item"]);
    }
    last = event;
  }
  EXPECT_EQ(types.front(), "response.created");
  EXPECT_EQ(types.back(), "response.completed");
  EXPECT_EQ(last["response"]["output"], built);
  EXPECT_EQ(last["response"]["usage"], whole["usage"]);
  ASSERT_EQ(built.size(), whole["output"].size());
  for (std::size_t i = 0; i < built.size(); ++i) {
    for (const char* key : {"type", "content", "name", "arguments"}) {
      EXPECT_EQ(built[i].value(key, Json()), whole["output"][i].value(key, Json())) << key;
    }
  }
}

TEST_F(ResponseRoutesTest, AFailureInTheMiddleIsAnErrorEvent) {
  service_.complete = [](const CompletionCall& call) {
    call.client->begin();
    call.client->show(std::vector<AnswerPiece>{{.text = "I "}});
    call.client->fail(unavailable("gone"));
    return Status();
  };
  server_ = *HttpServer::start({.listen = {"127.0.0.1", 0}}, openai_routes(service_));
  const std::string stream = post(R"(,"stream":true)");
  const std::vector<Json> events = events_of(stream);
  EXPECT_EQ(events.back()["type"], "error");
  EXPECT_EQ(events.back()["message"], "gone");
  EXPECT_EQ(events.back()["sequence_number"], events.size() - 1);
  EXPECT_THAT(stream, Not(HasSubstr("response.completed")));
}

TEST_F(ResponseRoutesTest, TextHasAForm) {
  answer(
      R"(,"text":{"format":{"type":"json_schema","name":"a","strict":true,"schema":{"type":"object"}},
             "verbosity":"medium"})");
  EXPECT_EQ(form_.kind, ConstraintKind::kJsonSchema);
  EXPECT_EQ(form_.text, R"({"type":"object"})");
  form_ = {};
  answer(R"(,"text":{"format":{"type":"json_object"}})");
  EXPECT_EQ(form_.kind, ConstraintKind::kJsonObject);
  form_ = {};
  answer(R"(,"text":{"format":{"type":"text"}})");
  EXPECT_EQ(form_.kind, ConstraintKind::kNone);
  EXPECT_EQ(refused(R"(,"text":{"format":{"type":"grammar"}})"), "invalid_value text.format");
  EXPECT_EQ(refused(R"(,"text":{"format":{"type":"json_schema"}})"),
            "missing_required_parameter text.format.schema");
  EXPECT_EQ(refused(R"(,"text":{"verbosity":"low"})"), "unsupported_parameter text.verbosity");
}

TEST_F(ResponseRoutesTest, ARequiredCallIsAForm) {
  says_ = kMoveCall;
  answer(std::string(kFunctions) + R"(,"tool_choice":{"type":"function","name":"stop"})");
  EXPECT_EQ(form_.kind, ConstraintKind::kFramed);
  EXPECT_THAT(form_.text, HasSubstr("stop"));
  EXPECT_THAT(form_.text, Not(HasSubstr("move")));
}

TEST_F(ResponseRoutesTest, WhatAsksForNothingIsTaken) {
  for (
      const char* fields :
      {R"(,"store":true,"truncation":"disabled","background":false,"user":"ada")",
       R"(,"previous_response_id":null,"reasoning":{"effort":"medium","summary":"auto"})",
       R"(,"include":["reasoning.encrypted_content"],"stream_options":{"include_obfuscation":false})"}) {
    EXPECT_EQ(answer(fields)["status"], "completed") << fields;
    EXPECT_EQ(answer(fields)["store"], false);
  }
}

TEST_F(ResponseRoutesTest, WhatIsNotSupportedIsNamed) {
  const auto is = [](const std::string& field) { return "unsupported_parameter " + field; };
  for (const std::string field : {"previous_response_id", "conversation", "background", "prompt",
                                  "messages", "max_tokens", "response_format", "n"}) {
    EXPECT_EQ(refused(",\"" + field + "\":true"), is(field));
  }
  EXPECT_THAT(post(R"(,"previous_response_id":"resp_1")"), HasSubstr("'input'"));
  EXPECT_EQ(refused(R"(,"truncation":"auto")"), is("truncation"));
  EXPECT_EQ(refused(R"(,"reasoning":{"effort":"high"})"), is("reasoning.effort"));
  EXPECT_EQ(refused(R"(,"include":["file_search_call.results"])"), "invalid_value include");
  EXPECT_EQ(refused(R"(,"tools":[{"type":"web_search"}])"), "invalid_value tools[0]");
  EXPECT_EQ(refused(R"(,"tools":[{"type":"function","name":"a b"}])"),
            "invalid_value tools[0].name");
  EXPECT_EQ(refused(R"(,"top_logprobs":2)"), "invalid_value top_logprobs");
}

TEST_F(ResponseRoutesTest, WhatIsWrongWithItemsIsNamed) {
  const auto item = [this](const std::string& json) {
    return refused("", R"([{"role":"user","content":"Go."},)" + json + "]");
  };
  EXPECT_EQ(refused("", "[]"), "invalid_value input");
  EXPECT_EQ(refused("", "null"), "missing_required_parameter input");
  EXPECT_EQ(refused("", R"([{"type":"reasoning"}])"), "invalid_value input");
  EXPECT_EQ(item("5"), "invalid_value input[1]");
  EXPECT_EQ(item(R"({"type":"item_reference","id":"x"})"), "unsupported_parameter input[1].type");
  EXPECT_EQ(item(R"({"role":"tool","content":"a"})"), "invalid_value input[1].role");
  EXPECT_EQ(item(R"({"role":"assistant","content":"a"})"), "invalid_value input");
  EXPECT_EQ(item(R"({"role":"user","content":[{"type":"input_image","image_url":"x"}]})"),
            "unsupported_parameter input[1].content[].type");
  EXPECT_EQ(item(R"({"type":"function_call_output","call_id":"c9","output":"a"})"),
            "invalid_value input[1].call_id");
  EXPECT_EQ(item(R"({"type":"function_call","call_id":"c9","name":"a","arguments":"[1]"})"),
            "invalid_value input[1].arguments");
}

}  // namespace
}  // namespace outrider
