// SPDX-License-Identifier: Apache-2.0
#include "common/openai/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kMessages = R"("messages":[{"role":"user","content":"Hi"}])";

Result<CompletionRequest> chat(const std::string& fields) {
  return parse_completion("{" + kMessages + (fields.empty() ? "" : "," + fields) + "}", true, {});
}

TEST(OpenaiRequest, ReadsWhatClientsSend) {
  const CompletionRequest request =
      *chat(R"("model":"any","temperature":0.5,"top_p":0.9,"seed":-1,"max_tokens":7,
               "stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"n":1,
               "logprobs":false,"tools":[],"presence_penalty":0,"user":null)");
  EXPECT_EQ(request.params.sampling.temperature, 0.5f);
  EXPECT_EQ(request.params.sampling.top_p, 0.9f);
  EXPECT_EQ(request.params.seed, ~std::uint64_t{0});
  EXPECT_EQ(request.params.max_tokens, 7);
  EXPECT_EQ(request.params.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.stream_usage);
  ASSERT_EQ(request.messages.size(), 1u);
  EXPECT_EQ(request.messages[0].content, "Hi");
}

TEST(OpenaiRequest, SpeculationMayBeTurnedOffAndOnlyOnWhereThereIsADraft) {
  EXPECT_FALSE(chat(R"("speculation":false)")->params.speculation);
  EXPECT_EQ(chat(R"("speculation":true)").status().code(), StatusCode::kUnimplemented);
  const std::string off = "{" + kMessages + R"(,"speculation":false})";
  EXPECT_FALSE(parse_completion(off, true, {.speculation = true})->params.speculation);
  const std::string on = "{" + kMessages + R"(,"speculation":true})";
  EXPECT_TRUE(parse_completion(on, true, {.speculation = true})->params.speculation);
  EXPECT_EQ(chat(R"("speculation":1)").status().code(), StatusCode::kInvalidArgument);
}

TEST(OpenaiRequest, JoinsContentInParts) {
  const std::string parts =
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[
          {"type":"text","text":"one "},{"type":"text","text":"two"}]}]})";
  const CompletionRequest request = *parse_completion(parts, true, {});
  EXPECT_EQ(request.messages[0].role, ChatRole::kSystem);
  EXPECT_EQ(request.messages[1].content, "one two");
}

TEST(OpenaiRequest, WhatIsNotSupportedIsRefusedByItsName) {
  for (const char* field :
       {R"("tools":[{"type":"function"}])", R"("n":2)", R"("logprobs":true)",
        R"("logit_bias":{"5":1})", R"("response_format":{"type":"json_object"})",
        R"("presence_penalty":0.5)", R"("tool_choice":"auto")", R"("temprature":1)",
        R"("stream_options":{"include_obfuscation":true})"}) {
    const Status status = chat(field).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << field;
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

TEST(OpenaiRequest, WrongValuesAreNamedWithWhatIsExpected) {
  for (const char* field :
       {R"("temperature":-1)", R"("temperature":1e400)", R"("temperature":"hot")", R"("top_p":2)",
        R"("max_tokens":0)", R"("max_tokens":1.5)", R"("max_tokens":-1)",
        R"("max_tokens":99999999999999999999)", R"("seed":"x")", R"("stop":[1])", R"("stop":[""])",
        R"("stop":["a","b","c","d","e"])", R"("stream":1)", R"("top_k":-1)"}) {
    EXPECT_EQ(chat(field).status().code(), StatusCode::kInvalidArgument) << field;
  }
  for (const char* body :
       {"", "[]", "{}", "{\"messages\":[]}", "{\"messages\":[{}]}", "{\"messages\":[5]}", "{\xff}",
        R"({"messages":[{"role":"robot","content":"x"}]})",
        R"({"messages":[{"role":"assistant","content":"x"}]})",
        R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})"}) {
    EXPECT_FALSE(parse_completion(body, true, {}).ok()) << body;
  }
  EXPECT_FALSE(parse_completion(R"({"messages":[]})", false, {}).ok());
  EXPECT_FALSE(parse_completion("{}", false, {}).ok());
  EXPECT_THAT(chat(R"("top_p":2)").status().message(),
              AllOf(HasSubstr("top_p"), HasSubstr("0.0 to 1.0")));
}

}  // namespace
}  // namespace outrider
