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
  EXPECT_EQ(request.params.text.choice.sampling.temperature, 0.5f);
  EXPECT_EQ(request.params.text.choice.sampling.top_p, 0.9f);
  EXPECT_EQ(request.params.text.choice.seed, ~std::uint64_t{0});
  EXPECT_EQ(request.params.text.max_tokens, 7);
  EXPECT_EQ(request.params.text.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.extras.usage);
  EXPECT_FALSE(request.extras.usage_so_far || request.extras.figures);
  EXPECT_TRUE(request.ignored.empty()) << "a null says nothing";
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

TEST(OpenaiRequest, ReadsTheTimeThatAnAnswerMayTake) {
  const auto request = chat(R"("model":"x@60","slo":{"tpot_ms":30,"time_ms":800,"strict":true},)"
                            R"("messages":[{"role":"user","content":"hi"}])");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  EXPECT_EQ(request->model, "x@60");
  EXPECT_EQ(request->params.wish.slo.tpot_ms, 30);
  EXPECT_EQ(request->params.wish.slo.time_ms, 800);
  EXPECT_FALSE(request->params.wish.slo.ttft_ms);
  EXPECT_TRUE(request->params.wish.slo.strict);
  for (const char* slo : {"{}", "5", R"({"strict":true})", R"({"time_ms":0})", R"({"tpot_ms":-1})",
                          R"({"tpot_ms":"fast"})", R"({"other":1})"}) {
    const auto refused =
        chat(std::string(R"("slo":)") + slo + R"(,"messages":[{"role":"user","content":"hi"}])");
    EXPECT_THAT(refused.status().message(), HasSubstr("slo")) << slo;
  }
}

TEST(OpenaiRequest, AllowsWhatIsUnverifiedByADeadline) {
  const auto asked = [](const std::string& slo, const std::string& more = R"("stream":true,)") {
    return chat(more + R"("slo":)" + slo + R"(,"messages":[{"role":"user","content":"hi"}])");
  };
  const auto request = asked(R"({"time_ms":800,"unverified":"allow"})");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  EXPECT_TRUE(request->params.wish.slo.unverified);
  EXPECT_EQ(request->params.wish.slo.time_ms, 800);
  for (const char* slo : {R"({"time_ms":800,"unverified":true})", R"({"unverified":"allow"})",
                          R"({"time_ms":800,"unverified":"deny"})",
                          R"({"time_ms":8,"unverified":"allow","strict":true})",
                          R"({"time_ms":8,"unverified":"allow","ttft_share":0.4})",
                          R"({"tpot_ms":8,"unverified":"allow"})"}) {
    EXPECT_EQ(asked(slo).status().code(), StatusCode::kInvalidArgument) << slo;
    EXPECT_THAT(asked(slo).status().message(), HasSubstr("slo")) << slo;
  }
  EXPECT_THAT(asked(R"({"time_ms":800,"unverified":"allow"})", "").status().message(),
              HasSubstr("\"stream\": true"));
}

// A program that gives such answers by default gives whole ones to who wants them whole.
TEST(OpenaiRequest, AWholeAnswerHasNothingUnverified) {
  const CompletionParams defaults{.wish = {.slo = {.time_ms = 800, .unverified = true}}};
  const std::string body = R"({"prompt":"x")";
  EXPECT_FALSE(parse_completion(body + "}", false, defaults)->params.wish.slo.asks());
  EXPECT_TRUE(
      parse_completion(body + R"(,"stream":true})", false, defaults)->params.wish.slo.unverified);
}

TEST(OpenaiRequest, WhatOtherClientsSendIsRead) {
  EXPECT_EQ(chat(R"("max_tokens":16.0)")->params.text.max_tokens, 16);
  EXPECT_EQ(chat(R"("max_completion_tokens":5)")->params.text.max_tokens, 5);
  EXPECT_EQ(chat(R"("max_tokens":5,"max_completion_tokens":5)")->params.text.max_tokens, 5);
  EXPECT_THAT(chat(R"("max_tokens":7,"max_completion_tokens":5)").status().message(),
              HasSubstr("'max_tokens' 7 and 'max_completion_tokens' 5 say two things"));
  EXPECT_THAT(chat(R"("max_tokens":1e30)").status().message(),
              HasSubstr("from 1, less than 2^53, and is 1e+30"));
  EXPECT_EQ(chat(R"("seed":18446744073709551615)")->params.text.choice.seed, ~std::uint64_t{0});
  EXPECT_EQ(chat(R"("seed":-9223372036854775808)")->params.text.choice.seed,
            std::uint64_t{1} << 63);
  EXPECT_TRUE(chat(R"("ignore_eos":true)")->params.text.ignore_eos);
  EXPECT_TRUE(chat(R"("stream_options":{"continuous_usage_stats":true})")->extras.usage_so_far);
  EXPECT_TRUE(chat(R"("outrider":true)")->extras.figures);
  EXPECT_EQ(parse_completion(R"({"prompt":["The robot"]})", false, {})->prompt, "The robot");
  EXPECT_FALSE(parse_completion(R"({"prompt":["a","b"]})", false, {}).ok());
  EXPECT_FALSE(parse_completion(R"({"prompt":[]})", false, {}).ok());
  const auto roles = [](const std::vector<std::string>& said) {
    std::string messages;
    for (const std::string& role : said) {
      messages +=
          (messages.empty() ? "" : ",") + std::string(R"({"content":"x","role":")") + role + "\"}";
    }
    return parse_completion("{\"messages\":[" + messages + "]}", true, {}).ok();
  };
  EXPECT_TRUE(roles({"user", "user"}));
  EXPECT_TRUE(roles({"system", "system", "user"}));
  EXPECT_TRUE(roles({"system"}));
  EXPECT_FALSE(roles({"user", "assistant"}));
}

TEST(OpenaiRequest, FieldsThatCannotChangeTheTextAreIgnoredAndNamed) {
  const auto request = chat(R"("user":"ada","service_tier":"auto","store":true,"model":"x",
                               "prompt_cache_key":"k","logit_bias":{},"min_tokens":0)");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  EXPECT_THAT(request->ignored, testing::UnorderedElementsAre("user", "store", "prompt_cache_key"));
}

TEST(OpenaiRequest, TheServiceTierIsReadAndAnUnknownOneListsThem) {
  EXPECT_EQ(chat(R"("service_tier":"flex")")->params.text.service_tier, ServiceTier::kFlex);
  EXPECT_EQ(chat(R"("service_tier":"priority")")->params.text.service_tier, ServiceTier::kPriority);
  for (const char* tier : {"\"scale\"", "1", "true"}) {
    const Status refused = chat(std::string("\"service_tier\":") + tier).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("auto, default, flex or priority"));
  }
}

TEST(OpenaiRequest, JoinsContentInParts) {
  const std::string parts =
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[
          {"type":"text","text":"one "},{"type":"text","text":"two"}]}]})";
  const CompletionRequest request = *parse_completion(parts, true, {});
  EXPECT_EQ(request.messages[0].role, ChatRole::kSystem);
  EXPECT_EQ(request.messages[1].content, "one two");
}

TEST(OpenaiRequest, AFilledKeyInsideAMessageIsRefusedByItsName) {
  const auto with = [](const std::string& keys) {
    return parse_completion(R"({"messages":[{"role":"user","content":"Hi",)" + keys + "}]}", true,
                            {})
        .status();
  };
  for (const char* nothing :
       {R"("name":null,"refusal":"","tool_calls":[],"function_call":{},"audio":null)",
        R"("annotations":[])"}) {
    EXPECT_EQ(with(nothing), Status()) << nothing;
  }
  for (const std::string key :
       {"tool_calls", "name", "refusal", "function_call", "audio", "extra"}) {
    for (const char* value : {R"([{"id":"1"}])", R"("x")", "1", "false"}) {
      const Status refused = with("\"" + key + "\":" + value);
      EXPECT_EQ(refused.code(), StatusCode::kUnimplemented) << key << value;
      EXPECT_THAT(refused.message(), HasSubstr("messages[]." + key));
    }
  }
  const Status part =
      parse_completion(
          R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","audio":"b"}]}]})",
          true, {})
          .status();
  EXPECT_THAT(part.message(), HasSubstr("messages[].content[].audio"));
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

TEST(OpenaiRequest, SetsVariablesOfTheChatTemplate) {
  const CompletionRequest request = *chat(R"("chat_template_kwargs":{"enable_thinking":false})");
  const ChatTemplate chat_template = *ChatTemplate::choose(
      ChatSource{.templates = {{"default", "{{ enable_thinking }} {{ messages[0].content }}"}}},
      "");
  const auto said = *chat_template.render(request.messages, true, request.template_variables);
  std::string text;
  for (const ChatSegment& segment : said) text += segment.text;
  EXPECT_EQ(text, "False Hi");
  const auto refused = [](const char* value) {
    return chat(R"("chat_template_kwargs":)" + std::string(value)).status();
  };
  EXPECT_EQ(refused("5").code(), StatusCode::kInvalidArgument);
  for (const char* taken : {"messages", "bos_token", "tools", "add_generation_prompt"}) {
    EXPECT_THAT(refused((R"({")" + std::string(taken) + R"(":"x"})").c_str()).message(),
                HasSubstr("chat_template_kwargs." + std::string(taken)));
  }
}

// A template's variable may contain text like a marker: it stays the user's text.
TEST(OpenaiRequest, TextsOfVariablesAreTheUsers) {
  const CompletionRequest request = *chat(R"("chat_template_kwargs":{"name":"<|im_end|>"})");
  const ChatTemplate chat_template =
      *ChatTemplate::choose(ChatSource{.templates = {{"default", "[{{ name }}]"}}}, "");
  const auto said = *chat_template.render(request.messages, true, request.template_variables);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_TRUE(said[0].is_template && !said[1].is_template && said[2].is_template);
  EXPECT_EQ(said[1].text, "<|im_end|>");
}

TEST(OpenaiRequest, WrongValuesAreNamedWithWhatIsExpected) {
  for (const char* field :
       {R"("temperature":-1)", R"("temperature":1e400)", R"("temperature":"hot")", R"("top_p":2)",
        R"("max_tokens":0)", R"("max_tokens":1.5)", R"("max_tokens":-1)",
        R"("max_tokens":99999999999999999999)", R"("max_tokens":1e300)", R"("seed":1.5)",
        R"("seed":36893488147419103232)", R"("seed":"x")", R"("stop":[1])", R"("stop":[""])",
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
