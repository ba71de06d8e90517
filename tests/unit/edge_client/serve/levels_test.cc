// An edge whose target has levels: by name, by deadline, and from one to the other.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "edge_client/generation/edge_setup.h"
#include "edge_client/serve/answer_queue.h"
#include "edge_client/serve/edge_server.h"
#include "tests/support/paths.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class EdgeLevelsTest : public testing::Test {
 protected:
  void SetUp() override {
    GenerationConfig config;
    config.target = source_dir() + "/models/demo-target";
    config.elastic = config.target + "/elastic.json";
    config.draft_level = "60";
    config.state_dir = "none";
    config.loading.threads = 1;
    ASSERT_TRUE(validate(config).ok()) << validate(config).to_string();
    auto setup = EdgeSetup::load(config);
    ASSERT_TRUE(setup.ok()) << setup.status().to_string();
    setup_ = *std::move(setup);
    EdgeServerOptions options{.http = {.listen = {"127.0.0.1", 0}},
                              .served_name = "demo",
                              .chat = &setup_->chat(),
                              .defaults = config.answer};
    for (const ElasticLevel& level : setup_->parts().elastic->levels()) {
      options.levels.push_back({level.name, level.divergence, level.agreement});
    }
    auto server = EdgeServer::start(options, setup_->parts());
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }

  std::string post(const json& body) {
    HttpClient client(server_->address());
    client.post("/v1/chat/completions", body.dump());
    return client.read_all();
  }
  static json body_of(const std::string& answer) {
    return json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
  }
  static json question(const std::string& model, int tokens = 24) {
    const char* scene = "In view: silver bottle 20 degrees left at 2.1 m. Task: find it.";
    return {{"model", model},
            {"messages", {{{"role", "user"}, {"content", scene}}}},
            {"max_tokens", tokens}};
  }
  std::string text_of(const std::string& model) {
    const json whole = body_of(post(question(model)));
    return whole["choices"][0]["message"]["content"].get<std::string>();
  }

  std::unique_ptr<EdgeSetup> setup_;
  std::unique_ptr<EdgeServer> server_;
};

TEST_F(EdgeLevelsTest, ModelsListLevelsWithTheirQuality) {
  const json models = body_of(http_get(server_->address(), "/v1/models"));
  ASSERT_EQ(models["data"].size(), 8u);
  EXPECT_EQ(models["data"][0]["id"], "demo");
  EXPECT_EQ(models["data"][4]["id"], "demo@70");
  EXPECT_GT(models["data"][7]["level"]["divergence"].get<double>(), 0.1);
  EXPECT_LT(models["data"][7]["level"]["agreement"].get<double>(), 1.0);
  EXPECT_EQ(body_of(http_get(server_->address(), "/v1/models/demo@60"))["level"]["name"], "60");
}

TEST_F(EdgeLevelsTest, ANamedLevelAnswersAndSaysSo) {
  const json whole = body_of(post(question("demo@60")));
  EXPECT_EQ(whole["model"], "demo@60");
  EXPECT_EQ(whole["level"]["name"], "60");
  EXPECT_GT(whole["level"]["predicted_time_ms"].get<double>(), 0);
  EXPECT_GT(whole["level"]["time_ms"].get<double>(), 0);
  EXPECT_EQ(body_of(post(question("demo")))["level"]["name"], "100");
  EXPECT_EQ(body_of(post(question("any name")))["level"]["name"], "100");
  json streamed = question("demo@40");
  streamed["stream"] = true;
  EXPECT_THAT(post(streamed), AllOf(HasSubstr("\"model\":\"demo@40\""), HasSubstr("\"level\":{"),
                                    HasSubstr("[DONE]")));
}

TEST_F(EdgeLevelsTest, ADeadlineChoosesALevel) {
  json asked = question("demo");
  asked["slo"] = {{"time_ms", 1e8}};
  EXPECT_EQ(body_of(post(asked))["level"]["name"], "100");
  asked["slo"] = {{"time_ms", 0.01}};
  const json late = body_of(post(asked));
  EXPECT_EQ(late["level"]["name"], "70") << "smaller ones fail the robot's task";
  EXPECT_GT(late["level"]["quality"].get<double>(), 0.95);
  EXPECT_FALSE(late["level"]["predicted_keeps_slo"].get<bool>());
  asked["slo"]["strict"] = true;
  EXPECT_THAT(post(asked), AllOf(HasSubstr("400"), HasSubstr("no level keeps the slo"),
                                 HasSubstr("(slo.min_quality) are 60, 50, 40")));
  asked["slo"] = {{"time_ms", 0.01}, {"min_quality", 0.2}};
  EXPECT_EQ(body_of(post(asked))["level"]["name"], "40");
  asked["slo"]["min_quality"] = 2;
  EXPECT_THAT(post(asked), AllOf(HasSubstr("400"), HasSubstr("slo.min_quality is 2")));
  asked["slo"] = {{"time_ms", 0}};
  EXPECT_THAT(post(asked), AllOf(HasSubstr("400"), HasSubstr("slo.time_ms")));
}

TEST_F(EdgeLevelsTest, AnUnknownLevelIsRefusedWithThoseThatThereAre) {
  EXPECT_THAT(post(question("demo@61")),
              AllOf(HasSubstr("404"), HasSubstr("100, 90, 80, 70, 60, 50, 40")));
}

// No row sees another level's keys and values: whatever came before, a level's text is its own.
TEST_F(EdgeLevelsTest, AfterAnySwitchALevelsTextIsTheSame) {
  std::map<std::string, std::string> texts;
  std::mt19937 random(32);
  const std::string levels[] = {"demo", "demo@80", "demo@60", "demo@50", "demo@40"};
  for (int i = 0; i < 60; ++i) {
    const std::string& model = levels[random() % 5];
    const std::string text = text_of(model);
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(texts.emplace(model, text).first->second, text) << model << ", answer " << i;
  }
  EXPECT_NE(texts["demo"], texts["demo@40"]);
}

TEST_F(EdgeLevelsTest, AClientThatLeavesMakesWayForAnotherLevel) {
  const std::string expected = text_of("demo@60");
  for (int i = 0; i < 5; ++i) {
    {
      json asked = question("demo", 400);
      asked["stream"] = true;
      asked["ignore_eos"] = true;
      HttpClient leaver(server_->address());
      leaver.post("/v1/chat/completions", asked.dump());
      leaver.read_until("\"finish_reason\":null");
    }
    EXPECT_EQ(text_of("demo@60"), expected);
  }
}

// Due at once, so nothing is verified by then, and perhaps nothing drafted.
TEST_F(EdgeLevelsTest, WhatIsUnverifiedByADeadlineComesBeforeTheTextThatConfirmsIt) {
  json asked = question("demo");
  asked["slo"] = {{"time_ms", 1}, {"unverified", "allow"}};
  EXPECT_THAT(post(asked), AllOf(HasSubstr("400"), HasSubstr("slo.unverified")));
  asked["stream"] = true;
  const std::string events = post(asked);
  std::string text, outcome;
  int given = 0;
  for (std::size_t at = 0; (at = events.find("data: {", at)) != std::string::npos; ++at) {
    const json event =
        json::parse(events.substr(at + 6, events.find("\n\n", at) - at - 6), nullptr, false);
    ASSERT_FALSE(event.is_discarded());
    text += event["choices"][0]["delta"].value("content", "");
    if (!event.contains("unverified")) continue;
    const json& unverified = event["unverified"];
    if (unverified.contains("continuation")) {
      ++given;
      EXPECT_EQ(text, "") << "it comes first";
    } else {
      outcome = unverified["outcome"].get<std::string>();
      EXPECT_EQ(event["level"]["name"], "100");
    }
  }
  EXPECT_EQ(given, 1);
  EXPECT_THAT(outcome, testing::AnyOf("confirmed", "corrected"));
  EXPECT_EQ(text, text_of("demo"));
}

TEST(NextJobTest, TheOneThatIsDueFirstIsAnsweredNext) {
  std::deque<ServeJob> waiting;
  const auto add = [&waiting](int came_s, const Slo& slo) {
    ServeJob& job = waiting.emplace_back();
    job.request.came_at = TimePoint() + std::chrono::seconds(came_s);
    job.request.config.wish.slo = slo;
  };
  add(0, {});
  add(0, {});
  EXPECT_EQ(next_job(waiting), 0u) << "the first that came";
  add(3, {.time_ms = 9000});
  EXPECT_EQ(next_job(waiting), 2u);
  add(4, {.ttft_ms = 500, .time_ms = 20000});
  EXPECT_EQ(next_job(waiting), 3u);
  add(1, {.time_ms = 1e9});
  EXPECT_EQ(next_job(waiting), 3u);
  waiting.erase(waiting.begin() + 2, waiting.begin() + 4);
  EXPECT_EQ(next_job(waiting), 0u) << "any time is at most a minute";
  add(61, {.time_ms = 1});
  EXPECT_EQ(next_job(waiting), 0u) << "nobody is passed by for longer";
}

TEST(NextJobTest, NetworksTakeTurnsAndTheOneThatWaitsMostGivesWay) {
  std::deque<ServeJob> waiting;
  for (const char* group : {"a", "a", "a", "b"}) {
    waiting.emplace_back().request.came_at =
        TimePoint() + std::chrono::seconds(std::ssize(waiting));
    waiting.back().group = group;
  }
  PlaceTurns turns;
  EXPECT_EQ(next_job(waiting, turns), 0u);
  turns.serve("a");
  EXPECT_EQ(next_job(waiting, turns), 3u) << "b has had none";
  turns.serve("b");
  EXPECT_EQ(next_job(waiting, turns), 0u);
  EXPECT_EQ(last_job(waiting), 2u);
}

}  // namespace
}  // namespace outrider
