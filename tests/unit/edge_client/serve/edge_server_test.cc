// A real draft, a real target in this process, real sockets. SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/edge_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>

#include "common/engine/model/emulated/paced_model.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/serve/answer_form.h"
#include "tests/support/paths.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Within some seconds.
bool soon_answers(const Address& address, const std::string& path, const std::string& words) {
  for (int i = 0; i < 200; ++i) {
    if (http_get(address, path).find(words) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

class EdgeServerTest : public testing::Test {
 protected:
  void SetUp() override {
    GenerationConfig config;
    config.model = source_dir() + "/models/demo-draft";
    config.target = source_dir() + "/models/demo-target";
    config.loading.threads = 1;
    config.draft_pacer = std::make_shared<CurvePacer>(*PaceCurve::parse("15"));
    auto setup = EdgeSetup::load(config);
    ASSERT_TRUE(setup.ok()) << setup.status().to_string();
    setup_ = *std::move(setup);
    start(8);
  }
  void start(std::size_t max_waiting, QueueOptions queue = {},
             std::optional<Strategy> strategy = {}) {
    start(max_waiting, queue, strategy, setup_->parts());
  }
  void start(std::size_t max_waiting, QueueOptions queue, std::optional<Strategy> strategy,
             const GeneratorParts& parts) {
    queue.max_waiting = max_waiting;
    server_.reset();
    AnswerConfig defaults;
    defaults.speculation.strategy = strategy;
    defaults.text.max_tokens = 24;
    auto server =
        EdgeServer::start({.http = {.listen = {"127.0.0.1", 0}, .allowed_hosts = {"here"}},
                           .served_name = "demo",
                           .chat = &setup_->chat(),
                           .defaults = defaults,
                           .queue = queue,
                           .version = "1.2.3",
                           .device = [this] { return device_; }},
                          parts);
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }

  // Each of its answers takes long enough to act in the middle of it: sd waits for the paced draft
  // in every round, where the default rests as soon as that does not pay.
  void start_slow(std::size_t max_waiting, QueueOptions queue = {}) {
    start(max_waiting, queue, Strategy::kSd);
  }

  std::string post(const std::string& path, const json& body, const std::string& more = "") {
    HttpClient client(server_->address());
    const std::string text = body.dump();
    client.send("POST " + path + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n" + more +
                "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text);
    return client.read_all();
  }
  static json body_of(const std::string& answer) {
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
  }
  static json question(bool stream, int tokens = 24) {
    return {{"messages", {{{"role", "user"}, {"content", "Pick up the red cup."}}}},
            {"max_tokens", tokens},
            {"stream", stream}};
  }
  // One that does not end by itself while a test looks.
  static json long_question() {
    json asked = question(true, 400);
    asked["ignore_eos"] = true;
    return asked;
  }

  // A stream has its head while it still waits for its turn.
  void await_running(HttpClient& stream) {
    stream.read_until("\"finish_reason\":null");
    EXPECT_TRUE(soon_answers(server_->address(), "/link", "\"waiting\":0"));
  }

  std::unique_ptr<EdgeSetup> setup_;
  std::optional<JetsonFigures> device_;  // read before each request for /metrics
  std::unique_ptr<EdgeServer> server_;
};

TEST_F(EdgeServerTest, AStreamedAnswerIsTheWholeOneInPieces) {
  const json whole = body_of(post("/v1/chat/completions", question(false)));
  const std::string text = whole["choices"][0]["message"]["content"].get<std::string>();
  EXPECT_FALSE(text.empty());
  EXPECT_EQ(whole["object"].get<std::string>(), "chat.completion");
  EXPECT_GT(whole["usage"]["completion_tokens"].get<int>(), 0);
  EXPECT_EQ(whole["usage"]["prompt_tokens_details"]["cached_tokens"].get<int>(), 0);
  EXPECT_FALSE(whole.contains("outrider")) << "figures come on request only";
  json with_figures = question(false);
  with_figures["outrider"] = true;
  EXPECT_TRUE(
      body_of(post("/v1/chat/completions", with_figures))["outrider"].contains("tokens_per_pass"));

  json asked = question(true);
  asked["stream_options"] = {{"include_usage", true}};
  const std::string events = post("/v1/chat/completions", asked);
  EXPECT_THAT(events, AllOf(HasSubstr("text/event-stream"), HasSubstr("data: [DONE]"),
                            HasSubstr("\"usage\""), HasSubstr("\"role\":\"assistant\"")));
  std::string streamed;
  for (std::size_t at = 0; (at = events.find("data: {", at)) != std::string::npos; ++at) {
    const json event =
        json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6), nullptr, false);
    ASSERT_FALSE(event.is_discarded());
    if (!event["choices"].empty() && event["choices"][0]["delta"].contains("content")) {
      streamed += event["choices"][0]["delta"]["content"].get<std::string>();
    }
  }
  EXPECT_EQ(streamed, text);
}

// The value of this header in the answer's head.
std::string header_of(const std::string& answer, const std::string& name) {
  const std::string head = answer.substr(0, answer.find("\r\n\r\n")) + "\r\n";
  const std::size_t at = head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "none";
  const std::size_t from = at + name.size() + 4;
  return head.substr(from, head.find("\r\n", from) - from);
}

TEST_F(EdgeServerTest, EveryAnswerCarriesItsRequestsId) {
  const std::string given = "X-Request-Id: robot-7:12\r\n";
  for (const std::string& answer : {post("/v1/chat/completions", question(false, 2), given),
                                    post("/v1/chat/completions", question(true, 2), given),
                                    post("/v1/chat/completions", {{"messages", 3}}, given),
                                    http_get(server_->address(), "/health", given),
                                    http_get(server_->address(), "/no/such/page", given)}) {
    EXPECT_EQ(header_of(answer, "X-Request-Id"), "robot-7:12") << answer;
  }
  for (const std::string& bad : {std::string(), std::string("X-Request-Id: two words\r\n"),
                                 "X-Request-Id: " + std::string(129, 'a') + "\r\n"}) {
    const std::string made =
        header_of(post("/v1/chat/completions", question(false, 2), bad), "X-Request-Id");
    EXPECT_THAT(made, testing::StartsWith("req-"));
  }
}

TEST_F(EdgeServerTest, APlainCompletionAndTheOtherPagesAnswer) {
  const json answer =
      body_of(post("/v1/completions", {{"prompt", "The robot"}, {"max_tokens", 5}}));
  EXPECT_EQ(answer["object"].get<std::string>(), "text_completion");
  EXPECT_EQ(answer["usage"]["completion_tokens"].get<int>(), 5);
  EXPECT_EQ(answer["choices"][0]["finish_reason"].get<std::string>(), "length");
  const json models = body_of(http_get(server_->address(), "/v1/models"));
  EXPECT_EQ(models["data"][0]["id"].get<std::string>(), "demo");
  EXPECT_GT(models["data"][0]["created"].get<std::int64_t>(), 1'700'000'000);
  EXPECT_EQ(models["data"][0]["template_hash"].get<std::string>(),
            template_hash(*setup_->chat().now()));
  EXPECT_EQ(body_of(http_get(server_->address(), "/v1/models/demo")), models["data"][0]);
  EXPECT_THAT(http_get(server_->address(), "/v1/models/other"),
              AllOf(HasSubstr("HTTP/1.1 404"), HasSubstr("\"error\"")));
  EXPECT_THAT(http_get(server_->address(), "/"), HasSubstr("<title>Outrider</title>"));
  EXPECT_THAT(http_get(server_->address(), "/metrics"),
              HasSubstr("outrider_edge_generation_tokens_total{model_name=\"demo\"} 5"));
  constexpr char kArrivals[] =
      "outrider_edge_inter_token_latency_seconds_count{model_name=\"demo\"} ";
  post("/v1/completions", {{"prompt", "The robot"}, {"max_tokens", 40}});  // several arrivals
  EXPECT_THAT(http_get(server_->address(), "/metrics"),
              AllOf(HasSubstr(kArrivals), Not(HasSubstr(kArrivals + std::string("0\n")))));
  EXPECT_THAT(post("/tokenize", {{"content", "cup"}}), HasSubstr("\"tokens\":["));
  EXPECT_THAT(http_get(server_->address(), "/v1/other"), HasSubstr("HTTP/1.1 404"));
}

TEST_F(EdgeServerTest, AJetsonsFiguresAreOnThePageOfMetrics) {
  EXPECT_THAT(http_get(server_->address(), "/metrics"), Not(HasSubstr("outrider_edge_device")));
  device_.emplace().power_mode = "15W";
  EXPECT_THAT(http_get(server_->address(), "/metrics"),
              HasSubstr("outrider_edge_device_power_mode{mode=\"15W\"} 1"));
}

TEST_F(EdgeServerTest, TheKvCachesOfDraftAndTargetTellTheirUse) {
  const auto use_of = [this](const std::string& cache) {
    const std::string page = http_get(server_->address(), "/metrics");
    const std::string name =
        "outrider_edge_kv_cache_usage_perc{model_name=\"demo\",cache=\"" + cache + "\"} ";
    const std::size_t at = page.find(name);
    return at == std::string::npos ? -1 : std::stod(page.substr(at + name.size()));
  };
  for (const char* cache : {"draft", "target"}) EXPECT_EQ(use_of(cache), 0) << cache;
  post("/v1/chat/completions", question(false));
  for (const char* cache : {"draft", "target"}) {
    EXPECT_GT(use_of(cache), 0) << cache << ": the text is kept for the next turn";
    EXPECT_LE(use_of(cache), 1) << cache;
  }
  GeneratorParts parts = setup_->parts();
  parts.draft = nullptr;
  start(8, {}, {}, parts);
  EXPECT_EQ(use_of("draft"), -1);
  EXPECT_GE(use_of("target"), 0);
}

TEST_F(EdgeServerTest, TokensAndTextGoBothWays) {
  for (const std::string text : {"Find the cup.", "速度 5 🤖", ""}) {
    const json tokens = body_of(post("/tokenize", {{"content", text}}));
    EXPECT_EQ(body_of(post("/detokenize", tokens))["content"].get<std::string>(), text);
  }
  for (const char* bad : {R"({"tokens":"cup"})", R"({"tokens":[1,-2]})", R"({"tokens":[1,1.5]})",
                          R"({"tokens":[99999999]})", R"({"content":"cup"})", "[]"}) {
    EXPECT_THAT(post("/detokenize", json::parse(bad)),
                AllOf(HasSubstr("HTTP/1.1 400"), HasSubstr("invalid_request")))
        << bad;
  }
  EXPECT_THAT(post("/detokenize", json::parse(R"({"tokens":[7,-2]})")),
              HasSubstr("tokens: -2 is not a token id"));
}

TEST_F(EdgeServerTest, HealthTellsWhetherARequestFindsATarget) {
  EXPECT_THAT(http_get(server_->address(), "/health/live"), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(server_->address(), "/health/ready"), HasSubstr("200 OK"));
  const json version = body_of(http_get(server_->address(), "/version"));
  EXPECT_EQ(version["version"].get<std::string>(), "1.2.3");
  EXPECT_EQ(version["model"].get<std::string>(), "demo");
  const std::string answer = http_get(server_->address(), "/health");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_EQ(body_of(answer)["link"].get<std::string>(), "none");
  EXPECT_EQ(body_of(answer)["decides"].get<std::string>(), "device");
  EXPECT_THAT(http_get(server_->address(), "/metrics"), HasSubstr("mode=\"offline\"} 1"));
}

TEST_F(EdgeServerTest, AFullQueueIsNotReadyAndAlive) {
  start_slow(0);
  EXPECT_THAT(http_get(server_->address(), "/health/ready"), HasSubstr("200 OK"));
  EXPECT_THAT(post("/v1/chat/completions", question(false, 2)), HasSubstr("200 OK"))
      << "nobody may wait, but this one need not";
  ASSERT_TRUE(soon_answers(server_->address(), "/health/ready", "200 OK"));
  HttpClient asker(server_->address());
  asker.post("/v1/chat/completions", long_question().dump());
  await_running(asker);
  EXPECT_THAT(post("/v1/chat/completions", question(false, 2)), HasSubstr("HTTP/1.1 429"));
  EXPECT_THAT(http_get(server_->address(), "/health/ready"), HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(http_get(server_->address(), "/health"),
              AllOf(HasSubstr("HTTP/1.1 503"), HasSubstr("unavailable")));
  EXPECT_THAT(http_get(server_->address(), "/link"), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(server_->address(), "/health/live"), HasSubstr("200 OK"));
}

// Tells nothing, as a server does that computes a long prompt, and its streams do not end before
// they are let.
class StuckVerifier final : public Verifier {
 public:
  void start(std::uint32_t /*epoch*/, EventSink /*sink*/) override {
    stuck_ = true;
    begun.release();
  }
  void send(EdgeMessage /*message*/) override {}
  void stop() override {
    if (std::exchange(stuck_, false)) let_go.acquire();
  }

  std::binary_semaphore begun{0}, let_go{0};

 private:
  bool stuck_ = false;
};

TEST_F(EdgeServerTest, AStreamHasItsHeadAndCommentsWhileItsPromptIsComputed) {
  StuckVerifier verifier;
  GeneratorParts parts{
      .tokenizer = setup_->tokenizer(), .verifiers = verifier, .clock = setup_->parts().clock};
  auto server = EdgeServer::start({.http = {.listen = {"127.0.0.1", 0}},
                                   .chat = &setup_->chat(),
                                   .queue = {.keep_alive = std::chrono::milliseconds(100)}},
                                  parts);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  HttpClient asker((*server)->address());
  asker.post("/v1/chat/completions", question(true).dump());
  verifier.begun.acquire();  // it waits for nobody before it
  EXPECT_THAT(asker.read_until(": still here"),
              AllOf(HasSubstr("200 OK"), HasSubstr("text/event-stream"), HasSubstr(": still here"),
                    Not(HasSubstr("\"content\":\"I"))));
  asker.close();
  verifier.let_go.release();
}

TEST_F(EdgeServerTest, AnAnswerThatDoesNotEndWhenToldIsHung) {
  StuckVerifier verifier;
  GeneratorParts parts{
      .tokenizer = setup_->tokenizer(), .verifiers = verifier, .clock = setup_->parts().clock};
  auto server =
      EdgeServer::start({.http = {.listen = {"127.0.0.1", 0}},
                         .chat = &setup_->chat(),
                         .queue = {.max_waiting = 8, .stop_limit = std::chrono::milliseconds(200)}},
                        parts);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  const Address address = (*server)->address();
  {
    HttpClient leaver(address);
    leaver.post("/v1/chat/completions", question(true).dump());
    verifier.begun.acquire();
    EXPECT_THAT(http_get(address, "/health/live"), HasSubstr("200 OK"));
  }
  EXPECT_TRUE(soon_answers(address, "/health/live", "HTTP/1.1 503"));
  EXPECT_FALSE((*server)->is_alive());
  EXPECT_THAT(http_get(address, "/health/ready"), HasSubstr("HTTP/1.1 503"));
  verifier.let_go.release();
  EXPECT_TRUE(soon_answers(address, "/health/live", "200 OK"));
}

TEST_F(EdgeServerTest, ErrorsAreOpenaisAndPagesOfOtherSitesAreNotAnswered) {
  const std::string refused =
      post("/v1/chat/completions", {{"messages", json::array()}, {"tools", 5}});
  EXPECT_THAT(refused, AllOf(HasSubstr("HTTP/1.1 400"), HasSubstr("invalid_request_error")));
  EXPECT_THAT(post("/v1/chat/completions", question(false), "Origin: http://evil.example\r\n"),
              HasSubstr("HTTP/1.1 403"));
  EXPECT_THAT(post("/v1/chat/completions", question(false, 2), "Origin: http://here\r\n"),
              HasSubstr("200 OK"));
}

TEST_F(EdgeServerTest, RequestsBeyondTheBoundGetARateLimit) {
  start_slow(1);
  HttpClient first(server_->address());
  first.post("/v1/chat/completions", long_question().dump());
  await_running(first);
  HttpClient second(server_->address());
  second.post("/v1/chat/completions", long_question().dump());
  std::string refused;
  for (int i = 0; i < 100 && refused.find("429") == std::string::npos; ++i) {
    HttpClient third(server_->address());
    third.post("/v1/chat/completions", question(false, 1).dump());
    refused = third.read_until("\r\n");
    if (refused.empty()) break;
  }
  EXPECT_THAT(refused, HasSubstr("HTTP/1.1 429"));
  EXPECT_THAT(http_get(server_->address(), "/health/live"), HasSubstr("200 OK"));
}

TEST_F(EdgeServerTest, StopTokensCanBeIgnoredAndTheSameTextGoesOn) {
  json asked = question(false, 200);
  const json natural = body_of(post("/v1/chat/completions", asked));
  ASSERT_EQ(natural["choices"][0]["finish_reason"].get<std::string>(), "stop");
  asked["ignore_eos"] = true;
  const json longer = body_of(post("/v1/chat/completions", asked));
  EXPECT_EQ(longer["choices"][0]["finish_reason"].get<std::string>(), "length");
  EXPECT_EQ(longer["usage"]["completion_tokens"].get<int>(), 200);
  EXPECT_THAT(longer["choices"][0]["message"]["content"].get<std::string>(),
              testing::StartsWith(natural["choices"][0]["message"]["content"].get<std::string>()));
}

TEST_F(EdgeServerTest, EveryEventTellsUsageIfAskedFor) {
  json asked = question(true);
  asked["stream_options"] = {{"include_usage", true}, {"continuous_usage_stats", true}};
  const std::string events = post("/v1/chat/completions", asked);
  EXPECT_THAT(events, AllOf(HasSubstr("\"completion_tokens\":24"), HasSubstr("\"usage\":null")));
  int last = 0, seen = 0;
  for (std::size_t at = 0; (at = events.find("\"completion_tokens\":", at)) != std::string::npos;) {
    const int now = std::stoi(events.substr(at += 20));
    EXPECT_GE(now, last);
    last = now;
    ++seen;
  }
  EXPECT_GT(seen, 3);
}

TEST_F(EdgeServerTest, AStreamThatWaitsHasItsHeadAndCommentsMeanwhile) {
  start_slow(8, {.keep_alive = std::chrono::milliseconds(100)});
  HttpClient first(server_->address());
  first.post("/v1/chat/completions", long_question().dump());
  await_running(first);
  HttpClient second(server_->address());
  second.post("/v1/chat/completions", question(true, 2).dump());
  EXPECT_THAT(second.read_until(": still here"),
              AllOf(HasSubstr("200 OK"), Not(HasSubstr("\"content\":\"I"))));
  first.close();
  EXPECT_THAT(second.read_all(), HasSubstr("data: [DONE]"));
}

TEST_F(EdgeServerTest, ADrainingEdgeEndsWhatItBeganAndTakesNoMore) {
  start_slow(8);
  HttpClient running(server_->address()), queued(server_->address());
  running.post("/v1/chat/completions", question(true, 40).dump());
  await_running(running);
  queued.post("/v1/chat/completions", question(false, 2).dump());
  ASSERT_TRUE(soon_answers(server_->address(), "/link", "\"waiting\":1"));
  server_->drain();
  EXPECT_THAT(post("/v1/chat/completions", question(false, 2)),
              AllOf(HasSubstr("HTTP/1.1 503"), HasSubstr("Retry-After: ")));
  EXPECT_THAT(http_get(server_->address(), "/health/ready"), HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(http_get(server_->address(), "/health/live"), HasSubstr("200 OK"));
  EXPECT_TRUE(server_->wait_until_idle(std::chrono::seconds(20)));
  EXPECT_THAT(running.read_all(), HasSubstr("data: [DONE]"));
  EXPECT_THAT(queued.read_all(), HasSubstr("200 OK"));
}

TEST_F(EdgeServerTest, WhatIsCutEndsWithAnError) {
  start_slow(8);
  HttpClient running(server_->address()), queued(server_->address()), whole(server_->address());
  running.post("/v1/chat/completions", long_question().dump());
  await_running(running);
  queued.post("/v1/chat/completions", question(true, 2).dump());
  whole.post("/v1/chat/completions", question(false, 2).dump());
  ASSERT_TRUE(soon_answers(server_->address(), "/link", "\"waiting\":2"));
  EXPECT_FALSE(server_->wait_until_idle(std::chrono::milliseconds(1)));
  server_->cut();
  EXPECT_TRUE(server_->wait_until_idle(std::chrono::seconds(20)));
  for (HttpClient* stream : {&running, &queued}) {
    EXPECT_THAT(stream->read_all(),
                AllOf(HasSubstr("200 OK"), HasSubstr("data: {\"error\""),
                      HasSubstr("shutting down"), Not(HasSubstr("\"finish_reason\":\"stop\"")),
                      Not(HasSubstr("\r\n0\r\n\r\n")), Not(HasSubstr("[DONE]"))))
        << "it does not look complete";
  }
  EXPECT_THAT(whole.read_all(), HasSubstr("HTTP/1.1 503"));
}

TEST_F(EdgeServerTest, AClientThatEndsItsSideAloneGetsItsAnswer) {
  for (const bool stream : {false, true}) {
    HttpClient client(server_->address());
    client.post("/v1/chat/completions", question(stream).dump());
    client.end_sending();
    EXPECT_THAT(client.read_all(),
                AllOf(HasSubstr("200 OK"), HasSubstr("\"finish_reason\":\"length\""),
                      Not(HasSubstr("cancelled"))))
        << stream;
  }
}

TEST(AnswerForm, AnAnswerThatWasCutIsAnError) {
  AnswerReport report;
  report.finish.ending = Ending::kCancelled;
  EXPECT_EQ(answer_status(report).code(), StatusCode::kUnavailable);
  report.finish.ending = Ending::kStopToken;
  EXPECT_EQ(answer_status(report), Status());
}

TEST_F(EdgeServerTest, AClientThatLeavesEndsItsAnswer) {
  start_slow(8);
  {
    HttpClient leaver(server_->address());
    leaver.post("/v1/chat/completions", long_question().dump());
    await_running(leaver);
  }
  EXPECT_THAT(post("/v1/chat/completions", question(false, 2)), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(server_->address(), "/metrics"),
              HasSubstr("finished_reason=\"cancelled\"} 1"));
}

}  // namespace
}  // namespace outrider
