// OpenAI's routes over real HTTP, on a toy target: answers to faults, bounds and
// keys. SPDX-License-Identifier: Apache-2.0
#include "cloud_server/openai/completion_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/engine/model/emulated/pace.h"
#include "common/engine/model/emulated/paced_model.h"
#include "common/serving/http/server.h"
#include "tests/sim/toy_model.h"
#include "tests/support/eventually.h"
#include "tests/support/paths.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class CompletionServerTest : public testing::Test {
 protected:
  static constexpr Position kContext = 256;
  static constexpr const char* kPrompt = R"({"prompt": "The robot", "max_tokens": 8})";

  CompletionServerTest() {
    scheduler_options_.tokenizer_hash = "70f1";
    options_ = {.model_name = "toy", .tokenizer_hash = "70f1", .context = kContext};
  }
  // pass_ms: the time of each pass.
  void start(const char* pass_ms = "0.1") {
    target_ = std::make_unique<PacedModel>(std::move(toy_), *PaceCurve::parse(pass_ms), clock_);
    engine_ = std::make_unique<VerifyEngine>(*target_, scheduler_options_, clock_);
    completions_ =
        std::make_unique<CompletionServer>(*engine_, tokenizer_, faults_, clock_, options_);
    auto http = HttpServer::start({.listen = {"127.0.0.1", 0}}, completions_->routes());
    ASSERT_TRUE(http.ok()) << http.status().to_string();
    http_ = *std::move(http);
  }
  void TearDown() override {  // before the objects of a subclass that it uses
    http_.reset();
    engine_.reset();
  }
  // Returns the whole response, head and body.
  std::string ask(const std::string& body, const std::string& headers = "") {
    HttpClient client(http_->address());
    client.post("/v1/completions", body, headers);
    return client.read_all();
  }
  std::vector<std::string> log_lines() {
    const std::lock_guard lock(mu_);
    return lines_;
  }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  std::unique_ptr<ToyModel> toy_ = std::make_unique<ToyModel>(tokenizer_.vocab_size(), kContext);
  ToyModel& model_ = *toy_;
  SystemClock clock_;
  SchedulerOptions scheduler_options_;
  CompletionServerOptions options_;
  std::mutex mu_;
  std::vector<std::string> lines_;
  FaultLog faults_{[this](const std::string& line) {
    const std::lock_guard lock(mu_);
    lines_.push_back(line);
  }};
  std::unique_ptr<PacedModel> target_;
  std::unique_ptr<VerifyEngine> engine_;
  std::unique_ptr<CompletionServer> completions_;
  std::unique_ptr<HttpServer> http_;
};

TEST_F(CompletionServerTest, AFaultOfThisSidesIsCountedAndLoggedAndItsWordsStayHere) {
  start();
  model_.break_next_passes(1);
  EXPECT_THAT(ask(kPrompt, "X-Request-Id: robot-7\r\n"),
              AllOf(HasSubstr(" 500 "), HasSubstr("failure 1"), Not(HasSubstr("pass"))));
  EXPECT_EQ(faults_.counts().failed, 1u);
  EXPECT_THAT(log_lines(), Contains(AllOf(HasSubstr("failure 1"), HasSubstr("request robot-7"),
                                          HasSubstr("INTERNAL: pass"))));
  model_.spoil_next_passes(1);
  EXPECT_THAT(ask(kPrompt),
              AllOf(HasSubstr(" 500 "), HasSubstr("failure 2"), Not(HasSubstr("logit"))));
  EXPECT_THAT(ask(kPrompt), HasSubstr(" 200 "));
}

// A client that is told to come back would come for ever.
TEST_F(CompletionServerTest, AnAnswerThatMemoryNeverHoldsIsRefusedWithItsSize) {
  toy_->set_kv_bytes_per_position(1024);
  scheduler_options_.kv.max_bytes = 2 * 64 * 1024;
  start();
  EXPECT_THAT(ask(R"({"prompt": ")" + std::string(150, '?') + R"(", "max_tokens": 80})"),
              AllOf(HasSubstr(" 400 "), HasSubstr("room for 128"), Not(HasSubstr("Retry-After"))));
  EXPECT_THAT(ask(kPrompt), HasSubstr(" 200 "));
}

// Before it is made tokens of, which takes long. A text that may fit is counted.
TEST_F(CompletionServerTest, ATextThatCanNeverFitIsRefusedByItsLength) {
  options_.chat = {.templates = {{"default", "{{ messages[0].content | trim }}"}}};
  start();
  const std::string text(500000, 'x');
  EXPECT_THAT(ask(R"({"prompt": ")" + text + R"("})"),
              AllOf(HasSubstr(" 400 "), HasSubstr("at least 38462 tokens"), HasSubstr("256")));
  const auto chat = [&](const std::string& content) {
    HttpClient client(http_->address());
    client.post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": ")" + content +
                                            R"("}], "max_tokens": 1})");
    return client.read_all();
  };
  EXPECT_THAT(chat(text), AllOf(HasSubstr(" 400 "), HasSubstr("at least")));
  EXPECT_THAT(chat(std::string(500000, ' ') + "x"), Not(HasSubstr("at least")))
      << "of which the template writes one character";
  EXPECT_THAT(ask(R"({"prompt": ")" + std::string(3000, '?') + R"("})"),
              AllOf(HasSubstr(" 400 "), Not(HasSubstr("at least"))));
}

TEST_F(CompletionServerTest, AFaultInTheMiddleOfAStreamIsMaskedToo) {
  start("5");
  HttpClient client(http_->address());
  client.post("/v1/completions", R"({"prompt": "The robot", "stream": true, "max_tokens": 200})");
  client.read_until("text");
  model_.break_next_passes(1);
  EXPECT_THAT(client.read_all(), AllOf(HasSubstr("failure 1"), Not(HasSubstr("pass: "))));
  EXPECT_EQ(faults_.counts().failed, 1u);
}

TEST_F(CompletionServerTest, AClientThatEndsItsSideAloneGetsItsAnswer) {
  start("2");
  for (const char* more : {"", R"(, "stream": true)"}) {
    HttpClient client(http_->address());
    client.post("/v1/completions",
                R"({"prompt": "The robot", "max_tokens": 20)" + std::string(more) + "}");
    client.end_sending();
    EXPECT_THAT(client.read_all(),
                AllOf(HasSubstr("200 OK"), HasSubstr("\"finish_reason\":\"length\"")));
  }
}

TEST_F(CompletionServerTest, AStreamHasItsHeadAndCommentsWhileItsPromptIsComputed) {
  options_.keep_alive = Duration{0};
  scheduler_options_.prefill_chunk = 4;
  start("20");
  HttpClient client(http_->address());
  client.post("/v1/completions",
              R"({"prompt": ")" + std::string(60, '?') + R"(", "stream": true, "max_tokens": 2})");
  EXPECT_THAT(client.read_until(": still here"),
              AllOf(HasSubstr("200 OK"), Not(HasSubstr("\"text\":"))));
  EXPECT_THAT(client.read_all(), HasSubstr("data: [DONE]"));
}

TEST_F(CompletionServerTest, EveryEventTellsUsageIfAskedFor) {
  start();
  const std::string events =
      ask(R"({"prompt": "The robot", "stream": true, "max_tokens": 8, "stream_options":)"
          R"({"include_usage": true, "continuous_usage_stats": true}})");
  for (const char* tokens : {"2", "5", "8"}) {
    EXPECT_THAT(events, HasSubstr("\"completion_tokens\":" + std::string(tokens)));
  }
  EXPECT_THAT(events, HasSubstr("\"prompt_tokens_details\":{\"cached_tokens\":0}"));
}

TEST_F(CompletionServerTest, AClientThatLeavesEndsItsAnswer) {
  start("2");
  for (const char* more : {"", R"(, "stream": true)"}) {
    HttpClient client(http_->address());
    const std::uint64_t before = engine_->stats().sessions_opened;
    client.post("/v1/completions", R"({"prompt": "The robot")" + std::string(more) + "}");
    ASSERT_TRUE(eventually([&] { return engine_->stats().sessions_opened > before; }));
  }
  EXPECT_TRUE(engine_->wait_until_idle(std::chrono::seconds(20)));
  EXPECT_EQ(engine_->stats().finished_cancelled, 2u);
}

TEST_F(CompletionServerTest, ClientsFaultsAreCounted) {
  start();
  EXPECT_THAT(ask(R"({"prompt": ""})"), HasSubstr(" 400 "));
  EXPECT_EQ(faults_.counts().refused, 1u);
  EXPECT_THAT(log_lines(), Contains(HasSubstr("refused 127.0.0.1 (request req-")));
}

TEST_F(CompletionServerTest, ARefusalForWantOfRoomCarriesTheEnginesDelay) {
  scheduler_options_.kv.max_bytes = 128;  // two pages of 64 rows, which one answer has
  scheduler_options_.max_queued_requests = 0;
  model_.set_kv_bytes_per_position(1);
  scheduler_options_.retry_after = std::chrono::seconds(7);
  start("20");
  HttpClient holder(http_->address());
  holder.post("/v1/completions",
              R"({"prompt": "The robot", "stream": true, "ignore_eos": true, "max_tokens": 90})");
  holder.read_until("\"text\"");
  EXPECT_THAT(ask(kPrompt),
              AllOf(HasSubstr(" 429 "), testing::ContainsRegex("Retry-After: (7|8|9|10|11)")));
}

class KeyedCompletionsTest : public CompletionServerTest {
 protected:
  KeyedCompletionsTest() {
    tenants_.replace(parse_tokens(alice_.line));
    options_.authenticator = &authenticator_;
    options_.tenants = &tenants_;
  }
  std::string ask_as_alice() {
    return ask(kPrompt, "Authorization: Bearer " + alice_.token + "\r\n");
  }
  const NewToken alice_ = *new_token("alice");
  Tenants tenants_;
  Authenticator authenticator_{tenants_, true};
};

TEST_F(KeyedCompletionsTest, NoRouteAnswersWithoutAKeyAndRefusalsAreCounted) {
  start();
  std::uint64_t asked = 0;
  for (const HttpRoute& route : completions_->routes()) {
    if (route.method != "POST") continue;
    ++asked;
    HttpClient client(http_->address());
    client.post(route.path,
                R"({"prompt": "The robot", "content": "The robot", "tokens": [300, 301]})");
    EXPECT_THAT(client.read_all(), AllOf(HasSubstr(" 401 "), HasSubstr("WWW-Authenticate: Bearer"),
                                         Not(HasSubstr("tokens\"")), Not(HasSubstr("content\""))))
        << route.path;
  }
  EXPECT_THAT(http_get(http_->address(), "/v1/models"),
              AllOf(HasSubstr(" 401 "), Not(HasSubstr("toy"))));
  EXPECT_EQ(authenticator_.refused(Front::kOpenAi), asked + 1);
  EXPECT_EQ(faults_.counts().refused, asked + 1);
  EXPECT_THAT(ask_as_alice(), HasSubstr(" 200 "));
}

TEST_F(KeyedCompletionsTest, TheSchemeOfTheKeyIsReadInAnyCase) {
  start();
  for (const char* scheme : {"bearer", "BEARER", "Bearer"}) {
    EXPECT_THAT(ask(kPrompt, "Authorization: " + std::string(scheme) + " " + alice_.token + "\r\n"),
                HasSubstr(" 200 "))
        << scheme;
  }
}

// Else all whom a quota refuses would come back at once.
TEST_F(KeyedCompletionsTest, RefusalsOfAQuotaTellDelaysThatDiffer) {
  tenants_.replace(parse_tokens(alice_.line + " prompt-tokens-per-minute=60"));
  start();
  const std::string body =
      R"({"max_tokens": 1, "prompt": ")" + std::string(100, '?') + "\"}";  // a token each
  const std::string key = "Authorization: Bearer " + alice_.token + "\r\n";
  EXPECT_THAT(ask(body, key), HasSubstr(" 200 "));  // 40 more than there were, at one a second
  std::set<int> delays;
  for (int i = 0; i < 5; ++i) {
    const std::string refused = ask(body, key);
    const std::size_t at = refused.find("Retry-After: ");
    ASSERT_NE(at, std::string::npos) << refused;
    delays.insert(std::stoi(refused.substr(at + 13)));
  }
  EXPECT_GE(delays.size(), 4u) << "whole seconds may be alike";
  EXPECT_GE(*delays.begin(), 20);
  EXPECT_LE(*delays.rbegin(), 61);
}

TEST_F(KeyedCompletionsTest, TooManyWrongKeysFromAnAddressAndItIsToldToComeBackLater) {
  start();
  std::string answered = ask_as_alice();
  EXPECT_THAT(answered, HasSubstr(" 200 "));
  for (int i = 0; i < 200 && answered.find(" 200 ") != std::string::npos; ++i) {
    ask(kPrompt, "Authorization: Bearer or-wrong\r\n");
    answered = ask_as_alice();
  }
  EXPECT_THAT(answered, AllOf(HasSubstr(" 429 "), testing::ContainsRegex("Retry-After: [23]\r\n")));
}

TEST_F(KeyedCompletionsTest, ARevokedKeyEndsItsStreamsHereToo) {
  start("5");
  HttpClient client(http_->address());
  client.post("/v1/completions", R"({"prompt": "The robot", "stream": true})",
              "Authorization: Bearer " + alice_.token + "\r\n");
  client.read_until("text");
  tenants_.replace(parse_tokens(new_token("bob")->line));
  EXPECT_THAT(client.read_all(), AllOf(HasSubstr("invalid_api_key"), HasSubstr("no longer valid")));
  EXPECT_TRUE(engine_->wait_until_idle(std::chrono::seconds(20)));
  EXPECT_EQ(engine_->stats().finished_cancelled, 1u);
}

}  // namespace
}  // namespace outrider
