// Several choices and prompts of one request over real HTTP, and the reference of all fields.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "common/serving/http/server.h"
#include "common/serving/openai/idle_fields.h"
#include "common/serving/openai/openapi.h"
#include "common/serving/openai/request_fields.h"
#include "common/serving/openai/routes.h"
#include "tests/support/paths.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// A program that answers each choice with its seed and the length of its prompt, the last first.
class ChoicesTest : public testing::Test {
 protected:
  ChoicesTest() {
    service_.tokenizer = &tokenizer_;
    service_.model_name = [] { return std::string("robot"); };
    service_.chat = [] { return not_found("no template"); };
    service_.max_choices = 6;
    service_.complete = [this](CompletionCall call) {
      if (calls_.size() == fails_at_) return unavailable("no more");
      calls_.push_back(std::move(call));
      if (calls_.size() == awaited_) {
        for (auto last = calls_.rbegin(); last != calls_.rend(); ++last) answer(*last);
        calls_.clear();
      }
      return Status();
    };
    server_ = *HttpServer::start({.listen = {"127.0.0.1", 0}}, openai_routes(service_));
  }
  static void answer(const CompletionCall& call) {
    const std::uint64_t tokens = call.prompt.ids.size();
    const std::vector<AnswerPiece> pieces = {{.text = std::to_string(call.params.text.choice.seed)},
                                             {.text = " of " + std::to_string(tokens)}};
    call.client->begin();
    if (call.params.text.prompt_logprobs) {
      const TokenLogprobs one{.chosen = -1, .top = {{5, -0.5f}}};
      call.client->show_prompt(std::vector<TokenLogprobs>(tokens - 1, one));
    }
    call.client->show(pieces);
    call.client->end({.usage = {.prompt_tokens = tokens, .completion_tokens = 2},
                      .seed = call.params.text.choice.seed});
  }
  std::string post(const std::string& fields) {
    HttpClient client(server_->address());
    client.post("/v1/completions", "{" + fields + "}");
    return client.read_all();
  }
  static Json body_of(const std::string& response) {
    return Json::parse(response.substr(response.find("\r\n\r\n") + 4), nullptr, false);
  }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  OpenaiService service_;
  std::vector<CompletionCall> calls_;
  std::size_t awaited_ = 1, fails_at_ = 99;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(ChoicesTest, EachHasItsIndexAndASeedOfItsOwn) {
  awaited_ = 3;
  const Json body = body_of(post(R"("prompt":[5,6],"n":3,"seed":7,"temperature":1)"));
  ASSERT_EQ(body["choices"].size(), 3u);
  std::set<std::string> texts;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json choice = body["choices"][i];
    EXPECT_EQ(choice["index"], i);
    const std::string seed = std::to_string(seed_of_choice(7, i));
    EXPECT_EQ(choice["text"], seed + " of 2");
    EXPECT_EQ(choice["outrider"]["seed"], seed_of_choice(7, i));
    texts.insert(choice["text"]);
  }
  EXPECT_EQ(seed_of_choice(7, 0), 7u) << "the first has the seed itself";
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_EQ(body["usage"]["prompt_tokens"], 2) << "a prompt counts once";
  EXPECT_EQ(body["usage"]["completion_tokens"], 6);
}

TEST_F(ChoicesTest, SeveralPromptsAreAnsweredInTheirOrder) {
  awaited_ = 4;
  const Json body = body_of(post(R"("prompt":[[5,6,7],[8]],"n":2,"best_of":2,"seed":7)"));
  std::vector<std::string> lengths;
  for (const Json& choice : body["choices"]) {
    const std::string text = choice["text"];
    lengths.push_back(text.substr(text.find(" of ")));
  }
  EXPECT_THAT(lengths, ElementsAre(" of 3", " of 3", " of 1", " of 1"));
  EXPECT_EQ(body["usage"]["prompt_tokens"], 4);
}

TEST_F(ChoicesTest, AStreamTellsThemApart) {
  awaited_ = 2;
  const std::string response =
      post(R"("prompt":"a","n":2,"seed":7,"stream":true,"stream_options":{"include_usage":true})");
  std::vector<std::string> texts(2), ends;
  Json usage;
  for (std::size_t at = 0; (at = response.find("data: {", at)) != std::string::npos; ++at) {
    const std::size_t begin = at + 6;
    const Json event =
        Json::parse(response.substr(begin, response.find("\n\n", begin) - begin), nullptr, false);
    if (event["choices"].empty()) {
      usage = event["usage"];
      continue;
    }
    const Json choice = event["choices"][0];
    texts[choice["index"].get<std::size_t>()] += choice["text"];
    if (!choice["finish_reason"].is_null()) ends.push_back(choice["finish_reason"]);
  }
  EXPECT_THAT(texts[0], HasSubstr("7 of "));
  EXPECT_THAT(texts[1], HasSubstr(std::to_string(seed_of_choice(7, 1))));
  EXPECT_THAT(ends, ElementsAre("stop", "stop"));
  EXPECT_EQ(usage["completion_tokens"], 4);
  EXPECT_THAT(response, HasSubstr("data: [DONE]"));
}

TEST_F(ChoicesTest, WhereOneIsRefusedAllAre) {
  awaited_ = 3;
  fails_at_ = 1;
  EXPECT_THAT(post(R"("prompt":"a","n":3)"), AllOf(HasSubstr("503"), HasSubstr("no more")));
  ASSERT_EQ(calls_.size(), 1u);
  EXPECT_TRUE(calls_[0].client->client_is_gone()) << "the one that was taken ends";
}

TEST_F(ChoicesTest, MoreThanMayWaitAreRefusedByName) {
  const auto error = [this](const std::string& fields) { return body_of(post(fields))["error"]; };
  EXPECT_EQ(error(R"("prompt":"a","n":7)")["param"], "n");
  EXPECT_THAT(error(R"("prompt":"a","n":7)")["message"].get<std::string>(), HasSubstr("6"));
  EXPECT_EQ(error(R"("prompt":["a","b","c","d","e","f","g"])")["param"], "prompt");
  EXPECT_EQ(error(R"("prompt":["a","b"],"n":100)")["param"], "n");
  EXPECT_EQ(error(R"("prompt":[5,123456])")["param"], "prompt");
  EXPECT_EQ(error(R"("prompt":"a","n":2,"best_of":3)")["param"], "best_of");
  EXPECT_EQ(error(R"("prompt":"a","logit_bias":{"123456":1})")["param"], "logit_bias");
  EXPECT_EQ(error(R"("prompt":"a","stop_token_ids":[123456])")["param"], "stop_token_ids");
  EXPECT_EQ(error(R"("prompt":"a","min_tokens":5,"max_tokens":4)")["param"], "min_tokens");
}

TEST_F(ChoicesTest, AnEchoBeginsWithThePrompt) {
  const Json body = body_of(post(R"("prompt":"The robot","echo":true,"seed":7)"));
  EXPECT_THAT(body["choices"][0]["text"].get<std::string>(), testing::StartsWith("The robot7 of "));
  EXPECT_THAT(post(R"("prompt":"The robot","echo":true,"seed":7,"stream":true)"),
              HasSubstr("\"text\":\"The robot7"));
}

TEST_F(ChoicesTest, AnEchoWithLogprobsHasThoseOfThePromptButOfItsFirstToken) {
  for (const char* text : {"The robot stops.", R"(Fa\u00e7ade \ud83e\udd16!)", "T"}) {
    const std::string prompt =
        R"("prompt":")" + std::string(text) + R"(","echo":true,"logprobs":1)";
    const Json choice = body_of(post(prompt))["choices"][0];
    const Json logprobs = choice["logprobs"];
    const std::size_t tokens = logprobs["tokens"].size();
    ASSERT_GT(tokens, 0u);
    EXPECT_TRUE(logprobs["token_logprobs"][0].is_null() && logprobs["top_logprobs"][0].is_null());
    EXPECT_EQ(logprobs["text_offset"][0], 0);
    for (std::size_t i = 1; i < tokens; ++i) {
      EXPECT_EQ(logprobs["token_logprobs"][i], -1);
      EXPECT_EQ(logprobs["top_logprobs"][i].size(), 1u);
      EXPECT_GE(logprobs["text_offset"][i], logprobs["text_offset"][i - 1]);
    }
    const Json alone = body_of(post(prompt + R"(,"max_tokens":0)"));
    EXPECT_EQ(alone["choices"][0]["text"], Json::parse("\"" + std::string(text) + "\""));
    EXPECT_EQ(alone["choices"][0]["logprobs"], logprobs);
    EXPECT_EQ(alone["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(alone["usage"]["completion_tokens"], 0);
    const std::string streamed = post(prompt + R"(,"max_tokens":0,"stream":true)");
    EXPECT_THAT(streamed, HasSubstr("\"token_logprobs\":[null"));
  }
  const Json plain = body_of(post(R"("prompt":"The robot stops.","echo":true,"logprobs":0)"));
  const Json offsets = plain["choices"][0]["logprobs"]["text_offset"];
  std::string text;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_EQ(offsets[i], text.size());
    text += plain["choices"][0]["logprobs"]["tokens"][i].get<std::string>();
  }
  EXPECT_EQ(text, "The robot stops.");
}

TEST_F(ChoicesTest, LogprobsOfPromptsAreBoundedTogether) {
  std::string long_prompt = "5";
  for (int i = 0; i < 3999; ++i) long_prompt += ",5";
  const auto error = [&](const std::string& fields) {
    return body_of(post(R"("prompt":[)" + long_prompt + R"(],"echo":true,)" + fields))["error"];
  };
  EXPECT_EQ(error(R"("logprobs":20,"n":2)")["param"], "logprobs");
  EXPECT_THAT(error(R"("logprobs":20,"n":2)")["message"].get<std::string>(),
              AllOf(HasSubstr("131072"), HasSubstr("168000")));
  EXPECT_TRUE(error(R"("logprobs":20,"max_tokens":1)").is_null());
  EXPECT_EQ(body_of(post(R"("prompt":"a","max_tokens":0)"))["error"]["param"], "max_tokens");
}

TEST_F(ChoicesTest, TheReferenceHasEveryFieldAndItsBounds) {
  const Json document = body_of(http_get(server_->address(), "/openapi.json"));
  const auto properties = [&](const char* path) {
    return document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
                   ["properties"];
  };
  const Json chat = properties("/v1/chat/completions"), plain = properties("/v1/completions");
  for (const RequestField& field : request_fields()) {
    const std::string name(field.name);
    EXPECT_TRUE(!field.is_used(Api::kChat) || chat.contains(name)) << name;
    EXPECT_TRUE(!field.is_used(Api::kCompletions) || plain.contains(name)) << name;
    EXPECT_FALSE(field.description.empty()) << name;
  }
  EXPECT_EQ(chat["temperature"]["maximum"], 100.0);
  EXPECT_EQ(chat["user"]["description"], "Is ignored: it cannot change the text.");
  EXPECT_EQ(chat["mirostat"]["enum"], Json::array({0}));
}

// The bounds of numbers in the reference are those that the parser holds.
TEST_F(ChoicesTest, TheBoundsOfTheReferenceHold) {
  const auto read = [](const std::string& name, const Json& value) {
    const Json body = {{"prompt", "a"}, {"echo", true}, {name, value}};
    return parse_completion(body.dump(), Api::kCompletions, {}).status();
  };
  int numbers = 0;
  for (const RequestField& field : request_fields()) {
    const std::string name(field.name);
    if (!field.is_used(Api::kCompletions) || !field.schema.contains("minimum") || name == "seed")
      continue;
    ++numbers;
    const bool is_whole = field.schema["type"] == "integer";
    const double least = field.schema["minimum"];
    if (name != "best_of") {
      EXPECT_EQ(read(name, least), Status()) << name;
    }
    EXPECT_EQ(read(name, least - 1).detail().field, name);
    if (is_whole) {
      EXPECT_EQ(read(name, least + 0.5).detail().field, name);
    }
    if (!field.schema.contains("maximum")) continue;
    const double most = field.schema["maximum"];
    EXPECT_EQ(read(name, most), Status()) << name;
    EXPECT_EQ(read(name, most + 1).detail().field, name);
  }
  EXPECT_GT(numbers, 6);
}

}  // namespace
}  // namespace outrider
