// OpenAI's routes over real HTTP, and a program behind them that only notes what it is asked.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <semaphore>
#include <set>

#include "common/serving/conversation/answer_length.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/http/server.h"
#include "common/serving/telemetry/log.h"
#include "tests/support/paths.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class OpenaiRoutesTest : public testing::Test {
 protected:
  OpenaiRoutesTest() {
    service_.tokenizer = &tokenizer_;
    service_.model_name = [] { return std::string("robot"); };
    service_.chat = [] { return not_found("no template"); };
    service_.complete = [](const CompletionCall&) { return unavailable("not here"); };
  }
  void start() {
    server_ = *HttpServer::start({.listen = {"127.0.0.1", 0}}, openai_routes(service_));
  }
  std::string post(const std::string& body, const std::string& path = "/v1/completions") {
    HttpClient client(server_->address());
    client.post(path, body);
    return client.read_all();
  }
  static Json body_of(const std::string& response) {
    return Json::parse(response.substr(response.find("\r\n\r\n") + 4), nullptr, false);
  }
  Json error_of(const std::string& response) { return body_of(response)["error"]; }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  OpenaiService service_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(OpenaiRoutesTest, ALevelIsWhatFollowsTheModelsName) {
  std::string level = "none";
  service_.complete = [&](const CompletionCall& call) {
    level = call.params.wish.level;
    return unavailable("noted");
  };
  service_.levels = {{"100", 0, 1}, {"60", 0.25, 0.75}};
  start();
  const auto ask = [this](const std::string& model) {
    return post(R"({"prompt": "x", "model": ")" + model + "\"}");
  };
  ask("robot@60");
  EXPECT_EQ(level, "60");
  ask("whatever");
  EXPECT_EQ(level, "");
  ask("robot@100,12:60");
  EXPECT_EQ(level, "100,12:60");
  EXPECT_THAT(ask("robot@100,12:7"), HasSubstr("404"));
  EXPECT_THAT(ask("robot@100,60"), HasSubstr("404"));
  EXPECT_THAT(ask("robot@7"), AllOf(HasSubstr("404"), HasSubstr("with the levels 100, 60")));
  EXPECT_THAT(http_get(server_->address(), "/v1/models/robot@60"), HasSubstr("\"agreement\":0.75"));
}

TEST_F(OpenaiRoutesTest, WithoutLevelsNoneIsFoundAndNoTimeIsKept) {
  start();
  EXPECT_THAT(post(R"({"prompt": "x", "model": "robot@60"})"), HasSubstr("has no level"));
  EXPECT_THAT(post(R"({"prompt": "x", "slo": {"time_ms": 80}})"), HasSubstr("has no levels"));
  EXPECT_THAT(post(R"({"prompt": "x", "model": "robot@auto"})"), HasSubstr("404"));
}

TEST_F(OpenaiRoutesTest, WhatIsUnverifiedNeedsADraftAndNoLevels) {
  const std::string asked =
      R"({"prompt": "x", "stream": true, "slo": {"time_ms": 80, "unverified": "allow"}})";
  start();
  EXPECT_THAT(post(asked), HasSubstr("has no levels"));
  service_.defaults = [] { return CompletionParams{.speculation = true}; };
  start();
  EXPECT_THAT(post(asked), HasSubstr("not here"));
}

// Tokenizing and detokenizing may take long, so threads of the work queue do it.
TEST_F(OpenaiRoutesTest, ALongTextKeepsNobodyElseWaiting) {
  std::binary_semaphore begun{0}, may_end{0};
  service_.complete = [&](const CompletionCall&) {
    begun.release();
    may_end.acquire();
    return unavailable("slowly");
  };
  start();
  HttpClient client(server_->address());
  client.post("/v1/completions", R"({"prompt": "The robot"})");
  begun.acquire();
  EXPECT_THAT(http_get(server_->address(), "/v1/models"), HasSubstr("200 OK"));
  may_end.release();
  EXPECT_THAT(client.read_all(), HasSubstr("slowly"));
}

TEST_F(OpenaiRoutesTest, EveryRouteThatReadsATextIsSlowAndNoOther) {
  int slow = 0;
  for (const HttpRoute& route : openai_routes(service_)) {
    EXPECT_EQ(route.is_slow, route.method == "POST") << route.path;
    slow += route.is_slow ? 1 : 0;
  }
  EXPECT_EQ(slow, 6);
}

TEST_F(OpenaiRoutesTest, AFieldThatIsIgnoredIsSaidOnce) {
  std::string said;
  const auto keep = [&](const std::function<void()>& write) {
    testing::internal::CaptureStderr();
    write();
    said += testing::internal::GetCapturedStderr();
  };
  start();
  const LogFrame before = set_log_frame(keep);
  for (int i = 0; i < 3; ++i) post(R"({"prompt": "The robot", "user": "ada"})");
  post(R"({"prompt": "The robot", "user": "ada", "metadata": {"a": "b"}})");
  set_log_frame(before);
  for (const std::string field : {"field=user", "field=metadata"}) {
    const std::size_t first = said.find(field);
    EXPECT_NE(first, std::string::npos) << said;
    EXPECT_EQ(said.find(field, first + 1), std::string::npos) << said;
  }
}

TEST_F(OpenaiRoutesTest, ASeedIsDrawnOnceForEachAnswerThatSamplesWithoutOne) {
  std::vector<std::uint64_t> seeds;
  bool draws = true;
  service_.defaults = [] { return CompletionParams{.text = {.draws_seed = true}}; };
  service_.complete = [&](const CompletionCall& call) {
    seeds.push_back(call.params.text.choice.seed);
    draws = call.params.text.draws_seed;
    return unavailable("noted");
  };
  start();
  const auto ask = [this](const std::string& more) { post(R"({"prompt": "x")" + more + "}"); };
  ask(R"(, "temperature": 1)");
  EXPECT_FALSE(draws) << "nobody behind the routes draws another";
  ask(R"(, "temperature": 1, "seed": null)");
  ask(R"(, "temperature": 1, "seed": -1)");
  EXPECT_EQ(std::set(seeds.begin(), seeds.end()).size(), 3u);
  for (const std::uint64_t seed : seeds) EXPECT_LT(seed, std::uint64_t{1} << 53);
  ask(R"(, "temperature": 1, "seed": 7)");
  EXPECT_EQ(seeds.back(), 7u);
}

TEST_F(OpenaiRoutesTest, TokensAreThoseOfARawPrompt) {
  start();
  const auto tokens = [this](const Json& body) {
    return body_of(post(body.dump(), "/tokenize"))["tokens"];
  };
  const Json marked = tokens({{"content", "a<|im_end|>"}});
  EXPECT_EQ(marked, Json(*encode_raw(tokenizer_, "a<|im_end|>", {.add_special = false})));
  EXPECT_LT(marked.size(), tokens({{"content", "a<|im_end|>"}, {"parse_special", false}}).size());
  EXPECT_EQ(tokens({{"prompt", "a<|im_end|>"}, {"model", "any"}}), marked);
  EXPECT_EQ(tokens({{"content", "a"}, {"prompt", "a"}, {"add_special", false}}),
            tokens({{"content", "a"}}));
  const Json pieces = tokens({{"content", "a\u00e9\U0001F916"}, {"with_pieces", true}});
  std::string text;
  for (const Json& token : pieces) {
    EXPECT_TRUE(token["id"].is_number());
    if (token["piece"].is_string()) text += token["piece"].get<std::string>();
    if (token["piece"].is_array()) {
      for (const Json& byte : token["piece"]) text += static_cast<char>(byte.get<int>());
    }
  }
  EXPECT_EQ(text, "a\u00e9\U0001F916");
}

TEST_F(OpenaiRoutesTest, UnknownFieldsOfTokensRoutesAreRefusedByName) {
  start();
  const auto refused = [this](const char* body, const char* path) {
    const Json error = error_of(post(body, path));
    return std::pair(error["code"].get<std::string>(), error["param"]);
  };
  using Told = std::pair<std::string, Json>;
  EXPECT_EQ(refused(R"({"content":"a","contents":"b"})", "/tokenize"),
            Told("unsupported_parameter", "contents"));
  EXPECT_EQ(refused(R"({"content":5})", "/tokenize"), Told("invalid_value", "content"));
  EXPECT_EQ(refused(R"({"content":"a","prompt":"b"})", "/tokenize"),
            Told("invalid_value", "prompt"));
  EXPECT_EQ(refused(R"({})", "/tokenize"), Told("missing_required_parameter", "content"));
  EXPECT_EQ(refused(R"({"content":"a","content":"b"})", "/tokenize"),
            Told("invalid_json", "content"));
  EXPECT_EQ(refused(R"({"content":"a","with_pieces":1})", "/tokenize"),
            Told("invalid_value", "with_pieces"));
  EXPECT_EQ(refused(R"({"tokens":[1],"skip":true})", "/detokenize"),
            Told("unsupported_parameter", "skip"));
  EXPECT_EQ(refused(R"({"tokens":[-1]})", "/detokenize"), Told("invalid_value", "tokens"));
  EXPECT_EQ(refused(R"({})", "/detokenize"), Told("missing_required_parameter", "tokens"));
}

TEST_F(OpenaiRoutesTest, ProgramsTellRefusalsApart) {
  service_.levels = {{"100", 0, 1}};
  service_.complete = [](const CompletionCall&) { return check_prompt_fits(9, 5); };
  start();
  const auto told = [this](const std::string& body, const char* path = "/v1/completions") {
    const Json error = error_of(post(body, path));
    return Json::array({error["type"], error["code"], error["param"]});
  };
  const auto is = [](const char* code, const Json& param) {
    return Json::array({"invalid_request_error", code, param});
  };
  EXPECT_EQ(told(R"({"prompt":"x"})"), is("context_length_exceeded", "prompt"));
  EXPECT_THAT(error_of(post(R"({"prompt":"x"})", "/v1/completions"))["message"].get<std::string>(),
              StartsWith("prompt is too long: the prompt has 9 tokens"));
  EXPECT_EQ(told(R"({"prompt":"x","model":"robot@7"})"), is("model_not_found", "model"));
  EXPECT_EQ(told(R"({"prompt":"x","tools":[{}]})"), is("unsupported_parameter", "tools"));
  EXPECT_EQ(told(R"({"prompt":"x","top_p":7})"), is("invalid_value", "top_p"));
  EXPECT_EQ(told("{"), is("invalid_json", nullptr));
  EXPECT_EQ(error_of(http_get(server_->address(), "/v1/models/other"))["code"].get<std::string>(),
            "model_not_found");
}

TEST_F(OpenaiRoutesTest, ABodyThatIsTooLargeIsRefusedInOpenaisForm) {
  start();
  const std::string refused = post(std::string(HttpServerOptions().max_body_bytes + 1, ' '));
  EXPECT_THAT(refused, AllOf(HasSubstr("HTTP/1.1 413"), HasSubstr("application/json")));
  const Json body = Json::parse(refused.substr(refused.find("\r\n\r\n") + 4), nullptr, false);
  ASSERT_FALSE(body.is_discarded()) << refused;
  EXPECT_EQ(body["error"]["type"].get<std::string>(), "invalid_request_error");
  EXPECT_FALSE(body["error"]["message"].get<std::string>().empty());
}

}  // namespace
}  // namespace outrider
