// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/serving/openai/idle_fields.h"
#include "common/serving/openai/request_prompt.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kMessages = R"("messages":[{"role":"user","content":"Hi"}])";

Result<CompletionRequest> chat(const std::string& fields) {
  return parse_completion("{" + kMessages + (fields.empty() ? "" : "," + fields) + "}", Api::kChat,
                          {});
}

TEST(OpenaiRequest, ReadsWhatClientsSend) {
  const CompletionRequest request =
      *chat(R"("model":"any","temperature":0.5,"top_p":0.9,"seed":9,"max_tokens":7,
               "stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"n":1,
               "logprobs":false,"tools":[],"presence_penalty":0,"user":null)");
  EXPECT_EQ(request.params.text.choice.sampling.temperature, 0.5f);
  EXPECT_EQ(request.params.text.choice.sampling.top_p, 0.9f);
  EXPECT_EQ(request.params.text.choice.seed, 9u);
  EXPECT_EQ(request.params.text.max_tokens, 7);
  EXPECT_EQ(request.params.text.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.extras.usage);
  EXPECT_FALSE(request.extras.usage_so_far || request.extras.figures);
  EXPECT_TRUE(request.ignored.empty()) << "a null says nothing";
  ASSERT_EQ(request.messages.size(), 1u);
  EXPECT_EQ(request.messages[0].content, "Hi");
}

TEST(OpenaiRequest, AFreshSeedIsAskedForByMinusOneAndNullAndASeedEndsTheDrawing) {
  for (const char* fresh : {"-1", "null", "-1.0"}) {
    const auto request = chat(std::string(R"("seed":)") + fresh);
    ASSERT_TRUE(request.ok()) << request.status().to_string();
    EXPECT_TRUE(request->params.text.draws_seed) << fresh;
  }
  const CompletionParams drawing{.text = {.draws_seed = true}};
  const auto with = [&](const std::string& seed) {
    return parse_completion("{" + kMessages + R"(,"seed":)" + seed + "}", Api::kChat, drawing)
        ->params.text;
  };
  EXPECT_FALSE(with("0").draws_seed);
  EXPECT_FALSE(with("18446744073709551615").draws_seed) << "the same bits as -1";
  EXPECT_TRUE(parse_completion("{" + kMessages + "}", Api::kChat, drawing)->params.text.draws_seed);
  EXPECT_FALSE(chat("")->params.text.draws_seed) << "the program gave a seed";
}

TEST(OpenaiRequest, SpeculationMayBeTurnedOffAndOnlyOnWhereThereIsADraft) {
  EXPECT_FALSE(chat(R"("speculation":false)")->params.speculation);
  EXPECT_EQ(chat(R"("speculation":true)").status().code(), StatusCode::kUnimplemented);
  const std::string off = "{" + kMessages + R"(,"speculation":false})";
  EXPECT_FALSE(parse_completion(off, Api::kChat, {.speculation = true})->params.speculation);
  const std::string on = "{" + kMessages + R"(,"speculation":true})";
  EXPECT_TRUE(parse_completion(on, Api::kChat, {.speculation = true})->params.speculation);
  EXPECT_EQ(chat(R"("speculation":1)").status().code(), StatusCode::kInvalidArgument);
}

TEST(OpenaiRequest, ReadsTheTimeThatAnAnswerMayTake) {
  const auto request = chat(R"("model":"x@60","slo":{"tpot_ms":30,"time_ms":800,"strict":true})");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  EXPECT_EQ(request->model, "x@60");
  EXPECT_EQ(request->params.wish.slo.tpot_ms, 30);
  EXPECT_EQ(request->params.wish.slo.time_ms, 800);
  EXPECT_FALSE(request->params.wish.slo.ttft_ms);
  EXPECT_TRUE(request->params.wish.slo.strict);
  EXPECT_EQ(chat(R"("slo":{"energy_j":2.5})")->params.wish.slo.energy_j, 2.5);
  for (const char* slo : {"{}", R"({"energy_j":0})", R"({"energy_j":"few"})", "5", R"({"strict":true})", R"({"time_ms":0})", R"({"tpot_ms":-1})",
                          R"({"tpot_ms":"fast"})", R"({"other":1})"}) {
    const auto refused = chat(std::string(R"("slo":)") + slo);
    EXPECT_THAT(refused.status().message(), HasSubstr("slo")) << slo;
  }
}

TEST(OpenaiRequest, AllowsWhatIsUnverifiedByADeadline) {
  const auto asked = [](const std::string& slo, const std::string& more = R"("stream":true,)") {
    return chat(more + R"("slo":)" + slo);
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
  EXPECT_FALSE(parse_completion(body + "}", Api::kCompletions, defaults)->params.wish.slo.asks());
  EXPECT_TRUE(parse_completion(body + R"(,"stream":true})", Api::kCompletions, defaults)
                  ->params.wish.slo.unverified);
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
  EXPECT_FALSE(chat(R"("outrider":true)")->extras.record);
  const auto both = chat(R"("outrider":{"record":true,"figures":true})");
  EXPECT_TRUE(both->extras.record && both->extras.figures);
  EXPECT_FALSE(chat(R"("outrider":{"record":true})")->extras.figures);
  EXPECT_THAT(chat(R"("outrider":{"file":"/tmp/x"})").status().message(),
              HasSubstr("outrider.file"));
  EXPECT_THAT(chat(R"("outrider":{"record":1})").status().message(), HasSubstr("outrider.record"));
  EXPECT_THAT(chat(R"("outrider":"record")").status().message(), HasSubstr("outrider"));
  const auto prompts = [](const std::string& value) {
    std::vector<std::string> all;
    const auto request = parse_completion("{\"prompt\":" + value + "}", Api::kCompletions, {});
    for (const PromptText& prompt : request.ok() ? request->prompts : std::vector<PromptText>()) {
      all.push_back(prompt.text);
      for (const TokenId id : prompt.ids) all.back() += std::to_string(id) + " ";
    }
    return all;
  };
  using testing::ElementsAre;
  EXPECT_THAT(prompts(R"("The robot")"), ElementsAre("The robot"));
  EXPECT_THAT(prompts(R"(["The robot"])"), ElementsAre("The robot"));
  EXPECT_THAT(prompts(R"(["a", "b"])"), ElementsAre("a", "b"));
  EXPECT_THAT(prompts("[5, 6]"), ElementsAre("5 6 "));
  EXPECT_THAT(prompts("[[5, 6], [7]]"), ElementsAre("5 6 ", "7 "));
  EXPECT_THAT(prompts(R"([[5], "a"])"), ElementsAre("5 ", "a"));
  for (const char* wrong :
       {"[]", "[[]]", "{}", "5", R"(["a", 5])", "[5, \"a\"]", "[-1]", "[1.5]"}) {
    EXPECT_THAT(prompts(wrong), testing::IsEmpty()) << wrong;
  }
  EXPECT_FALSE(parse_completion(R"({"prompt":[]})", Api::kCompletions, {}).ok());
  const auto roles = [](const std::vector<std::string>& said) {
    std::string messages;
    for (const std::string& role : said) {
      messages +=
          (messages.empty() ? "" : ",") + std::string(R"({"content":"x","role":")") + role + "\"}";
    }
    return parse_completion("{\"messages\":[" + messages + "]}", Api::kChat, {}).ok();
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
  const CompletionRequest request = *parse_completion(parts, Api::kChat, {});
  EXPECT_EQ(request.messages[0].role, ChatRole::kSystem);
  EXPECT_EQ(request.messages[1].content, "one two");
}

TEST(OpenaiRequest, AFilledKeyInsideAMessageIsRefusedByItsName) {
  const auto with = [](const std::string& keys) {
    return parse_completion(R"({"messages":[{"role":"user","content":"Hi",)" + keys + "}]}",
                            Api::kChat, {})
        .status();
  };
  for (const char* nothing :
       {R"("name":null,"refusal":"","tool_calls":[],"function_call":{},"audio":null)",
        R"("annotations":[],"cache_control":{"type":"ephemeral"})"}) {
    EXPECT_EQ(with(nothing), Status()) << nothing;
  }
  for (const std::string key : {"refusal", "function_call", "audio", "extra"}) {
    for (const char* value : {R"([{"id":"1"}])", R"("x")", "1", "false"}) {
      const Status refused = with("\"" + key + "\":" + value);
      EXPECT_EQ(refused.code(), StatusCode::kUnimplemented) << key << value;
      EXPECT_THAT(refused.message(), HasSubstr("messages[]." + key));
    }
  }
  const Status part =
      parse_completion(
          R"({"messages":[{"role":"user","content":[{"type":"text","text":"a","audio":"b"}]}]})",
          Api::kChat, {})
          .status();
  EXPECT_THAT(part.message(), HasSubstr("messages[].content[].audio"));
}

TEST(OpenaiRequest, WhatIsNotSupportedIsRefusedByItsName) {
  for (const char* field :
       {R"("functions":[{"name":"f"}])", R"("best_of":2)", R"("n_probs":5)",
        R"("structured_outputs":{"structural_tag":{}})", R"("temprature":1)", R"("echo":true)",
        R"("parse_special":true)", R"("stream_options":{"include_obfuscation":true})"}) {
    const Status status = chat(field).status();
    EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << field;
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_THAT(status.message(), HasSubstr(name));
  }
}

// The kind of the form that a chat with these fields asks for, and its text.
ConstraintSpec form_of(const std::string& fields, const CompletionParams& defaults = {}) {
  const auto request = parse_completion(
      R"({"messages":[{"role":"user","content":"a"}],)" + fields + "}", Api::kChat, defaults);
  EXPECT_TRUE(request.ok()) << fields << ": " << request.status().to_string();
  return request.ok() ? request->params.text.choice.settings.constraint.spec : ConstraintSpec();
}

TEST(OpenaiRequest, FormsOfAnswersAreReadByEveryName) {
  using enum ConstraintKind;
  const std::string schema = R"({"properties":{"b":{},"a":{}}})";
  const ConstraintSpec by_schema{kJsonSchema, schema};
  for (
      const std::string& fields : std::initializer_list<std::string>{
          R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":)" +
              schema + "}}",
          R"("response_format":{"type":"json_object","schema":)" + schema + "}",
          R"("json_schema":)" + schema, R"("guided_json":)" + schema,
          R"("guided_json":"{\"properties\":{\"b\":{},\"a\":{}}}")",
          R"("structured_outputs":{"json":)" + schema + R"(,"regex":null})"}) {
    EXPECT_EQ(form_of(fields), by_schema) << fields << ": properties keep their order";
  }
  EXPECT_EQ(form_of(R"("response_format":{"type":"json_object"})").kind, kJsonObject);
  EXPECT_EQ(form_of(R"("structured_outputs":{"json_object":true})").kind, kJsonObject);
  EXPECT_EQ(form_of(R"("regex":"a+")"), (ConstraintSpec{kRegex, "a+"}));
  EXPECT_EQ(form_of(R"("guided_regex":"a+")"), (ConstraintSpec{kRegex, "a+"}));
  EXPECT_EQ(form_of(R"("grammar":"root ::= \"a\"")"), (ConstraintSpec{kGrammar, "root ::= \"a\""}));
  EXPECT_EQ(form_of(R"("guided_choice":["go","say \"hi\""])"),
            (ConstraintSpec{kGrammar, "root ::= \"go\" | \"say \\\"hi\\\"\"\n"}));
  EXPECT_EQ(form_of(R"("response_format":{"type":"text"},"grammar":"")"), ConstraintSpec());
  CompletionParams defaults;
  defaults.text.choice.settings.constraint.spec = by_schema;
  EXPECT_EQ(form_of(R"("temperature":0)", defaults), by_schema);
  EXPECT_EQ(form_of(R"("response_format":{"type":"text"})", defaults), ConstraintSpec());
  EXPECT_EQ(form_of(R"("regex":"a")", defaults), (ConstraintSpec{kRegex, "a"}));
}

TEST(OpenaiRequest, WrongFormsAreNamed) {
  const auto refused = [](const std::string& fields) { return chat(fields).status(); };
  for (const char* fields :
       {R"("response_format":{"type":"yaml"})", R"("response_format":"json_object")",
        R"("response_format":{"type":"json_schema"})",
        R"("response_format":{"type":"json_schema","json_schema":{"schema":3}})",
        R"("json_schema":3)", R"("grammar":3)", R"("regex":{})", R"("guided_choice":[])",
        R"("guided_choice":[""])", R"("structured_outputs":{"regex":"a","json":{}})"}) {
    EXPECT_EQ(refused(fields).code(), StatusCode::kInvalidArgument) << fields;
    const std::string name = std::string(fields).substr(1, std::string(fields).find('"', 1) - 1);
    EXPECT_THAT(refused(fields).detail().field, HasSubstr(name)) << fields;
  }
  EXPECT_THAT(refused(R"("regex":"a","response_format":{"type":"json_object"})").message(),
              HasSubstr("'response_format' asks for a form, too"));
  EXPECT_THAT(
      refused(R"("regex":"a","tools":[{"type":"function","function":{"name":"f"}}])").message(),
      HasSubstr("stands beside 'tools' where it is JSON"));
}

TEST(OpenaiRequest, SettingsOfTheChoiceAreRead) {
  const auto request = chat(R"("presence_penalty":0.5,"frequency_penalty":-2,"repeat_penalty":1.25,
      "logit_bias":{"5":-100,"7":1.5},"min_tokens":3,"stop_token_ids":[9,8],"bad_words":["no"])");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const TextOptions& text = request->params.text;
  const ChoiceSettings& settings = text.choice.settings;
  EXPECT_EQ(settings.presence_penalty, 0.5f);
  EXPECT_EQ(settings.frequency_penalty, -2.0f);
  EXPECT_EQ(settings.repetition_penalty, 1.25f);
  EXPECT_EQ(settings.logit_bias, (std::vector<LogitBias>{{5, -100}, {7, 1.5f}}));
  EXPECT_EQ(settings.min_tokens, 3);
  EXPECT_EQ(text.stop_token_ids, (std::vector<TokenId>{9, 8}));
  EXPECT_EQ(text.bad_words, std::vector<std::string>{"no"});
  EXPECT_EQ(chat(R"("logit_bias":[[5,-1]])")->params.text.choice.settings.logit_bias,
            (std::vector<LogitBias>{{5, -1}}));
  for (const char* wrong :
       {R"("logit_bias":{"5":101})", R"("logit_bias":{"five":1})", R"("logit_bias":{"-5":1})",
        R"("logit_bias":{"5":"1"})", R"("logit_bias":[[5]])", R"("logit_bias":[5])",
        R"("logit_bias":"5")", R"("logit_bias":{"99999999999":1})", R"("stop_token_ids":["a"])",
        R"("stop_token_ids":5)", R"("bad_words":[""])", R"("bad_words":"no")",
        R"("presence_penalty":2.5)", R"("repetition_penalty":0)", R"("min_tokens":-1)"}) {
    const Status status = chat(wrong).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << wrong;
    const std::string name = std::string(wrong).substr(1, std::string(wrong).find('"', 1) - 1);
    EXPECT_THAT(status.detail().field, testing::StartsWith(name)) << wrong;
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
        R"("seed":36893488147419103232)", R"("seed":"x")", R"("stop":[1])", R"("stop":{})",
        R"("stream":1)", R"("top_k":-2)"}) {
    EXPECT_EQ(chat(field).status().code(), StatusCode::kInvalidArgument) << field;
  }
  for (const char* body :
       {"", "[]", "{}", "{\"messages\":[]}", "{\"messages\":[{}]}", "{\"messages\":[5]}", "{\xff}",
        R"({"messages":[{"role":"robot","content":"x"}]})",
        R"({"messages":[{"role":"assistant","content":"x"}]})",
        R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})"}) {
    EXPECT_FALSE(parse_completion(body, Api::kChat, {}).ok()) << body;
  }
  EXPECT_FALSE(parse_completion(R"({"messages":[]})", Api::kCompletions, {}).ok());
  EXPECT_FALSE(parse_completion("{}", Api::kCompletions, {}).ok());
  EXPECT_THAT(chat(R"("top_p":2)").status().message(),
              AllOf(HasSubstr("top_p"), HasSubstr("0.0 to 1.0")));
}

TEST(OpenaiRequest, EveryIdleValueOfTheTableIsAcceptedAndAnotherIsRefusedByName) {
  for (const auto& [field, value] : idle_values()) {
    const std::string name = field;
    const Status idle = chat("\"" + name + "\":" + value.dump()).status();
    EXPECT_EQ(idle, Status()) << name << " " << value;
    const Status refused = chat("\"" + name + "\":\"something else\"").status();
    EXPECT_EQ(refused.code(), StatusCode::kUnimplemented) << name;
    EXPECT_EQ(refused.detail().field, name);
  }
  for (const char* idle :
       {R"("top_k":-1)", R"("repeat_penalty":1.0)", R"("typical_p":1.0)", R"("tool_choice":"auto")",
        R"("logit_bias":{})", R"("logit_bias":[])", R"("tools":[])", R"("suffix":null)",
        R"("n":1.0)", R"("response_format":{"type":"text"})", R"("presence_penalty":0.0)",
        R"("cache_control":{"type":"ephemeral"})", R"("repeat_last_n":64)", R"("user":"ada")",
        R"("parse_special":false)", R"("add_special_tokens":false)"}) {
    EXPECT_EQ(chat(idle).status(), Status()) << idle;
  }
  EXPECT_EQ(chat(R"("top_k":-1)")->params.text.choice.sampling.top_k, 0);
}

TEST(OpenaiRequest, MoreThanFourStopTextsAreReadAndEmptyOnesPassedOver) {
  const auto request = chat(R"("stop":["a","","b","c","d","e","f"])");
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  EXPECT_THAT(request->params.text.stop, testing::ElementsAre("a", "b", "c", "d", "e", "f"));
  EXPECT_TRUE(chat(R"("stop":"")")->params.text.stop.empty());
  Json many = Json::array();
  for (int i = 0; i < 65; ++i) many.push_back(std::to_string(i));
  const Status refused = chat(R"("stop":)" + many.dump()).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("up to 64 texts"));
  EXPECT_EQ(refused.detail(), (StatusDetail{"invalid_value", "stop"}));
}

TEST(OpenaiRequest, WhatIsSentAlongWithAMessageIsTheTemplatesToWrite) {
  const auto request = parse_completion(
      R"({"messages":[
          {"role":"user","name":"ann<|im_end|>","content":[
            {"type":"text","text":"Hi","cache_control":{"type":"ephemeral"}}]},
          {"role":"assistant","reasoning_content":"hm","content":"Hello"},
          {"role":"user","content":"Go on"}]})",
      Api::kChat, {});
  ASSERT_TRUE(request.ok()) << request.status().to_string();
  const ChatTemplate chat_template = *ChatTemplate::choose(
      ChatSource{.templates = {{"default",
                                "{% for m in messages %}{{ m.name }}/{{ m.reasoning_content }}: "
                                "{{ m.content }}\n{% endfor %}"}}},
      "");
  const auto said = *chat_template.render(request->messages, true);
  std::string text, users;
  for (const ChatSegment& segment : said) {
    text += segment.text;
    if (!segment.is_template) users += segment.text;
  }
  EXPECT_EQ(text, "ann<|im_end|>/: Hi\n/hm: Hello\n/: Go on\n");
  EXPECT_EQ(users, "ann<|im_end|>HihmHelloGo on") << "no text of a message is the template's";
  const Status wrong =
      parse_completion(R"({"messages":[{"role":"user","content":"x","name":5}]})", Api::kChat, {})
          .status();
  EXPECT_EQ(wrong.detail(), (StatusDetail{"invalid_value", "messages[].name"}));
}

TEST(OpenaiRequest, ARepeatedKeyIsRefusedByName) {
  for (const auto& [body, key] :
       {std::pair(R"({"prompt":"a","temperature":0,"temperature":1})", "temperature"),
        {R"({"prompt":"a","prompt":"a"})", "prompt"},
        {R"({"prompt":"a","stream_options":{"include_usage":true,"include_usage":false}})",
         "include_usage"}}) {
    const Status refused = parse_completion(body, Api::kCompletions, {}).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << body;
    EXPECT_THAT(refused.message(), HasSubstr("\"" + std::string(key) + "\" stands twice"));
    EXPECT_EQ(refused.detail(), (StatusDetail{"invalid_json", key}));
  }
  EXPECT_TRUE(parse_completion(R"({"prompt":"a","metadata":{"a":{"b":1},"c":{"b":1}}})",
                               Api::kCompletions, {})
                  .ok())
      << "two objects may have the same key";
}

TEST(OpenaiRequest, RefusalsHaveOpenaisCodesAndNameTheField) {
  const auto told = [](const std::string& body, Api api) {
    return parse_completion(body, api, {}).status().detail();
  };
  EXPECT_EQ(told("{}", Api::kChat), (StatusDetail{"missing_required_parameter", "messages"}));
  EXPECT_EQ(told("{}", Api::kCompletions), (StatusDetail{"missing_required_parameter", "prompt"}));
  EXPECT_EQ(told(R"({"prompt":null})", Api::kCompletions),
            (StatusDetail{"missing_required_parameter", "prompt"}));
  EXPECT_EQ(told("{", Api::kCompletions), (StatusDetail{"invalid_json", ""}));
  EXPECT_EQ(told("[]", Api::kCompletions), (StatusDetail{"invalid_json", ""}));
  EXPECT_EQ(told(R"({"prompt":"a","temperature":-1})", Api::kCompletions),
            (StatusDetail{"invalid_value", "temperature"}));
  EXPECT_EQ(told(R"({"prompt":"a","temprature":1})", Api::kCompletions),
            (StatusDetail{"unsupported_parameter", "temprature"}));
  EXPECT_EQ(told(R"({"prompt":"a","max_tokens":1,"max_completion_tokens":2})", Api::kCompletions),
            (StatusDetail{"invalid_value", "max_completion_tokens"}));
}

TEST(OpenaiRequest, APlainPromptsSpecialTokensCountUnlessTheRequestSaysNo) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  const auto ids = [&](const std::string& more) {
    const auto request =
        parse_completion(R"({"prompt":"a<|im_end|>")" + more + "}", Api::kCompletions, {});
    return encode_request(tokenizer, *request, {})->prompts[0].ids;
  };
  EXPECT_EQ(ids("").size(), 2u);
  EXPECT_EQ(ids(R"(,"parse_special":true)"), ids(""));
  EXPECT_EQ(ids(R"(,"parse_special":false)"), *tokenizer.encode("a<|im_end|>"));
}

}  // namespace
}  // namespace outrider
