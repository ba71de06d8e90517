// When requests arrive, whose they are, and which flags contradict each other.
// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_plan.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace outrider {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

std::vector<PlannedRequest> all_of(Schedule& schedule, ClientKind kind) {
  std::vector<PlannedRequest> found;
  while (const auto next = schedule.next(kind, Duration{0}, false)) found.push_back(*next);
  return found;
}

TEST(ScheduleTest, PoissonArrivalsHaveTheirRateAndTheSpreadOfOne) {
  LoadShape shape{.openai_clients = 1, .request_rate = 50, .num_prompts = 20'000, .seed = 3};
  Schedule schedule(shape);
  const auto requests = all_of(schedule, ClientKind::kOpenAi);
  ASSERT_EQ(requests.size(), 20'000u);
  EXPECT_EQ(requests.front().due, Duration{0});
  double squares = 0;
  int beyond_mean = 0;
  for (std::size_t i = 1; i < requests.size(); ++i) {
    const double gap = to_seconds(requests[i].due - requests[i - 1].due);
    squares += gap * gap;
    beyond_mean += gap > 1.0 / 50 ? 1 : 0;
  }
  const double mean = to_seconds(requests.back().due) / 19'999;
  EXPECT_NEAR(mean, 0.02, 0.0005);
  EXPECT_NEAR(squares / 19'999 / (mean * mean), 2, 0.08) << "E[x^2] = 2 E[x]^2";
  EXPECT_NEAR(beyond_mean / 19'999.0, std::exp(-1), 0.01);
}

TEST(ScheduleTest, TheSameSeedPlansTheSameAndAnotherSeedDoesNot) {
  const auto plan = [](std::uint64_t seed) {
    Schedule schedule({.openai_clients = 1, .request_rate = 5, .num_prompts = 50, .seed = seed});
    std::vector<Duration> due;
    for (const PlannedRequest& request : all_of(schedule, ClientKind::kOpenAi)) {
      due.push_back(request.due);
    }
    return due;
  };
  EXPECT_EQ(plan(1), plan(1));
  EXPECT_NE(plan(1), plan(2));
  EXPECT_EQ(prompt_order(120, 7), prompt_order(120, 7));
  EXPECT_NE(prompt_order(120, 7), prompt_order(120, 8));
  std::vector<std::size_t> sorted = prompt_order(120, 7);
  std::ranges::sort(sorted);
  for (std::size_t i = 0; i < 120; ++i) EXPECT_EQ(sorted[i], i);
}

TEST(ScheduleTest, AnOpenLoopSharesArrivalsByTheNumbersOfClients) {
  Schedule schedule({.edges = 3, .openai_clients = 1, .request_rate = 10, .num_prompts = 400});
  const auto of_edges = all_of(schedule, ClientKind::kEdge);
  const auto others = all_of(schedule, ClientKind::kOpenAi);
  EXPECT_EQ(of_edges.size(), 300u);
  EXPECT_EQ(others.size(), 100u);
  std::vector<bool> seen(400);
  for (const auto& request : of_edges) seen[request.number] = true;
  for (const auto& request : others) EXPECT_FALSE(seen[request.number]) << request.number;
}

TEST(ScheduleTest, ADurationEndsBothLoops) {
  Schedule open({.openai_clients = 1, .request_rate = 100, .duration = seconds(2)});
  const auto arrived = all_of(open, ClientKind::kOpenAi);
  EXPECT_NEAR(static_cast<double>(arrived.size()), 200, 60);
  EXPECT_LE(arrived.back().due, seconds(2));
  EXPECT_FALSE(open.next(ClientKind::kOpenAi, Duration{0}, false)) << "it stays over";
  Schedule closed({.edges = 1, .duration = seconds(2)});
  EXPECT_TRUE(closed.next(ClientKind::kEdge, seconds(2), true));
  EXPECT_FALSE(closed.next(ClientKind::kEdge, seconds(2) + Duration{1}, true));
}

TEST(ScheduleTest, InAClosedLoopAClientThinksAfterAnAnswerOnly) {
  Schedule schedule({.edges = 2, .num_prompts = 1001, .think_time = seconds(4)});
  EXPECT_EQ(schedule.next(ClientKind::kEdge, seconds(1), false)->due, seconds(1));
  double thought = 0;
  while (const auto next = schedule.next(ClientKind::kEdge, seconds(1), true)) {
    thought += to_seconds(next->due - seconds(1));
  }
  EXPECT_NEAR(thought / 1000, 4, 0.5);
}

TEST(ScheduleTest, GreedySessionsAreOutsideTheCount) {
  Schedule schedule({.edges = 1, .num_prompts = 1});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(schedule.next(ClientKind::kGreedy, seconds(9), true));
  EXPECT_EQ(schedule.next(ClientKind::kEdge, Duration{0}, false)->number, 0u);
  EXPECT_FALSE(schedule.next(ClientKind::kEdge, Duration{0}, true));
}

TEST(LoadShapeTest, WhatCannotBeMeantIsRefusedWithARemedy) {
  EXPECT_THAT(check_load({.num_prompts = 1}).message(), HasSubstr("--edges N, --openai-clients N"));
  EXPECT_THAT(check_load({.edges = 1}).message(), HasSubstr("never end"));
  EXPECT_THAT(
      check_load({.edges = 1, .request_rate = 2, .num_prompts = 1, .think_time = seconds(1)})
          .message(),
      HasSubstr("leave one out"));
  EXPECT_TRUE(check_load({.edges = 1, .num_prompts = 1}).ok());
}

TEST(LoadShapeTest, ARateIsANumberAboveZeroOrInf) {
  EXPECT_EQ(*parse_request_rate("2.5"), 2.5);
  EXPECT_TRUE(std::isinf(*parse_request_rate("inf")));
  for (const char* bad : {"0", "-1", "", "nan", "infinity", "3x", " 3", "1e999"}) {
    EXPECT_THAT(parse_request_rate(bad).status().message(), HasSubstr("more than 0, or inf"))
        << bad;
  }
}

}  // namespace
}  // namespace outrider
