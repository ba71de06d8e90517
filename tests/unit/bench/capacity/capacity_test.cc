// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/capacity.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// A device that takes 10 ms for each row, links and edges that take no time, and drafts that are
// always right: what a server carries can be computed by hand.
CapacityQuestion plain_arithmetic() {
  CapacityQuestion question;
  question.pace = {.name = "10 ms a row", .pass = *PaceCurve::create({{1, 10}, {64, 640}})};
  question.pair = {.name = "sure", .tau = 2, .gamma = 1};
  question.load.prompt = 1;
  question.load.answer = 60;
  question.load.warm_up = from_ms(2000);
  question.load.measured = from_ms(20000);
  question.slo.tpot_ms = 107;  // rounds cut short by the end of an answer bring fewer tokens
  question.draft_share = 0.5;
  question.seeds = 2;
  question.max_clients = 100;
  return question;
}

double sessions(const CapacityQuestion& question, CapacityContender contender,
                const CapacityTuning& tuning) {
  const auto holds = [&](std::size_t clients) {
    const Result<CapacityRun> run = run_capacity(question, contender, tuning, clients, 1);
    EXPECT_TRUE(run.ok()) << run.status().message();
    return run.ok() && question.slo.is_met(run->clients);
  };
  return static_cast<double>(max_sessions(holds, 4, question.max_clients));
}

// Ten rows of 10 ms bring ten sessions a token each in 100 ms.
TEST(CapacityTest, PlainDecodingCarriesWhatArithmeticSays) {
  const CapacityQuestion question = plain_arithmetic();
  EXPECT_EQ(sessions(question, CapacityContender::kPlain, {0, 64}), 10);
  EXPECT_EQ(sessions(question, CapacityContender::kPlain, {0, 4}), 10);
}

// A round of two tokens: 20 ms of the device, and 5 ms of a draft beside the target.
TEST(CapacityTest, DraftingOnTheEdgeCarriesWhatTheLawSays) {
  const CapacityQuestion question = plain_arithmetic();
  const double beside = sessions(question, CapacityContender::kColocatedSteps, {1, 64});
  EXPECT_EQ(beside, 8);
  EXPECT_EQ(sessions(question, CapacityContender::kOursDrafting, {1, 64}), 10);
  EXPECT_EQ(sessions(question, CapacityContender::kSpecEdgeDynamic, {1, 64}), 10);
  const double factor = law_factor(question, {.contender = CapacityContender::kColocatedSteps,
                                              .best = {1, 64},
                                              .rounds_per_pass = 8,
                                              .rows_per_pass = 16});
  EXPECT_DOUBLE_EQ(factor, 1.25);
}

// A draft that is never right: a round of two rows brings one token. The shipped scheduler leaves
// rows out that never stand, and an edge may draft nothing.
TEST(CapacityTest, DraftsThatAreNeverRightCostWhoVerifiesThem) {
  CapacityQuestion question = plain_arithmetic();
  question.pair = {.name = "wrong", .tau = 1, .gamma = 4};
  EXPECT_EQ(sessions(question, CapacityContender::kSpecEdgeDynamic, {1, 64}), 5);
  EXPECT_GE(sessions(question, CapacityContender::kOursDrafting, {1, 64}), 9);
  const Result<CapacityFigures> ours = find_capacity(question, CapacityContender::kOurs);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  EXPECT_EQ(ours->best.gamma, 0);
  EXPECT_EQ(mean_of(ours->sessions).value, 10);
}

// A device on which rows cost little, and clients so far that their drafts come too late.
TEST(CapacityTest, AServerDraftsForClientsThatAreFar) {
  CapacityQuestion question = plain_arithmetic();
  question.pace.pass = *PaceCurve::create({{1, 20}, {64, 40}});
  question.pair = {.name = "good", .tau = 3.5, .gamma = 4};
  question.draft_share = 1.0 / 16;
  question.load.up.delay = question.load.down.delay = from_ms(100);
  question.load.draft_step = from_ms(8);
  const auto load = compare_drafters(question, {4, 64}, 2);
  ASSERT_TRUE(load.ok()) << load.status().message();
  const auto speed = [](const DrafterFigures& one) { return mean_of(one.tokens_per_s).value; };
  EXPECT_GT(speed(load->by_server), 1.3 * speed(load->by_clients));
  EXPECT_GT(load->both_over_better().value, 0.97);
  EXPECT_EQ(load->by_clients.from_server, 0u);
  EXPECT_EQ(load->by_server.from_clients, 0u);
  EXPECT_GT(load->both.server_share(), 0.9);
}

// A step of the draft takes as long as a pass: nobody waits for it, and clients draft in time.
TEST(CapacityTest, AServerWhoseDraftIsSlowLeavesDraftingToItsClients) {
  CapacityQuestion question = plain_arithmetic();
  question.pace.pass = *PaceCurve::create({{1, 40}, {64, 60}});
  question.pair = {.name = "good", .tau = 3.5, .gamma = 4};
  question.draft_share = 1;
  question.load.draft_step = from_ms(1);
  const auto load = compare_drafters(question, {4, 64}, 2);
  ASSERT_TRUE(load.ok()) << load.status().message();
  EXPECT_GT(load->both_over_better().value, 0.97);
  EXPECT_LT(load->both.server_share(), 0.1);
}

// Sixteen sessions fill table 9's A100: a drafted row brings about what its time costs.
TEST(CapacityTest, DraftsThatHardlyPayDoNotSlowAFullDevice) {
  CapacityQuestion question;
  question.pace = find_capacity_paces({"table9-5ms"})->front();
  question.pair = find_capacity_pairs({"smollm2-gsm8k"})->front();
  question.load.draft_step = from_ms(question.pace.step_ms);
  question.load.up.delay = question.load.down.delay = from_ms(question.pace.one_way_ms);
  question.load.warm_up = from_ms(5000);
  question.load.measured = from_ms(20000);
  const auto plain = run_capacity(question, CapacityContender::kPlain, {0, 64}, 16, 1);
  const auto drafting = run_capacity(question, CapacityContender::kOursDrafting, {4, 64}, 16, 1);
  ASSERT_TRUE(plain.ok() && drafting.ok());
  EXPECT_GT(drafting->tokens_per_s, 0.97 * plain->tokens_per_s);
}

// A round waits 600 ms for the link, so that only long ones keep 107 ms a token.
TEST(CapacityTest, TheBestDraftLengthIsFound) {
  CapacityQuestion question = plain_arithmetic();
  question.pace.pass = *PaceCurve::create({{1, 10}, {64, 11}});
  question.load.up.delay = question.load.down.delay = from_ms(300);
  const auto most = find_capacity(question, CapacityContender::kDipSd);
  ASSERT_TRUE(most.ok()) << most.status().message();
  EXPECT_GE(most->best.gamma, 6);
  EXPECT_EQ(sessions(question, CapacityContender::kDipSd, {1, 64}), 0);
}

TEST(CapacityTest, ASeedGivesOneResult) {
  CapacityQuestion question = plain_arithmetic();
  question.pair = {.name = "half", .tau = 1.5, .gamma = 1};
  question.load.up.delay = question.load.down.delay = from_ms(7);
  question.load.draft_step = from_ms(3);
  question.load.think = from_ms(100);
  for (const auto& [contender, name] : enum_names<CapacityContender>) {
    const CapacityTuning tuning{contender == CapacityContender::kPlain ? 0 : 3, 16};
    const auto first = run_capacity(question, contender, tuning, 6, 5);
    const auto again = run_capacity(question, contender, tuning, 6, 5);
    const auto other = run_capacity(question, contender, tuning, 6, 6);
    ASSERT_TRUE(first.ok() && again.ok() && other.ok()) << name;
    EXPECT_EQ(first->clients.tpot_ms, again->clients.tpot_ms) << name;
    EXPECT_EQ(first->server.rows, again->server.rows) << name;
    EXPECT_NE(first->clients.tpot_ms, other->clients.tpot_ms) << name;
    EXPECT_GT(first->clients.tokens, 200u) << name;
  }
}

// With one client who asks once a second or so, an answer waits for the one before it.
TEST(CapacityTest, PoissonRequestsComeWhetherOrNotTheAnswerBeforeIsThere) {
  CapacityQuestion question = plain_arithmetic();
  question.load.think = from_ms(1000);
  const auto closed = run_capacity(question, CapacityContender::kPlain, {0, 64}, 1, 1);
  question.load.arrivals = Arrivals::kPoisson;
  const auto poisson = run_capacity(question, CapacityContender::kPlain, {0, 64}, 1, 1);
  ASSERT_TRUE(closed.ok() && poisson.ok());
  EXPECT_GT(poisson->clients.tokens, closed->clients.tokens);
}

TEST(SloTest, NinetyFiveOfAHundredAnswersMustKeepIt) {
  const CapacitySlo slo{.tpot_ms = 100, .ttft_ms = 1000};
  CrowdFigures figures;
  EXPECT_FALSE(slo.is_met(figures));  // nobody had an answer
  figures.ttft_ms.assign(101, 500);
  figures.tpot_ms.assign(101, 100);
  EXPECT_TRUE(slo.is_met(figures));
  std::fill_n(figures.tpot_ms.begin(), 5, 500);
  EXPECT_TRUE(slo.is_met(figures));
  std::fill_n(figures.tpot_ms.begin(), 6, 500);
  EXPECT_FALSE(slo.is_met(figures));
  figures.tpot_ms.assign(101, 50);
  figures.ttft_ms.assign(101, 1001);
  EXPECT_FALSE(slo.is_met(figures));
}

TEST(MaxSessionsTest, FindsTheLastThatHolds) {
  for (const std::size_t last : {0u, 1u, 2u, 7u, 8u, 9u, 63u, 199u}) {
    for (const std::size_t guess : {1u, 8u, 100u, 5000u}) {
      std::size_t probes = 0;
      const auto holds = [&](std::size_t sessions) {
        ++probes;
        return sessions <= last;
      };
      EXPECT_EQ(max_sessions(holds, guess, 10000), last) << guess;
      EXPECT_LE(probes, 30u);
    }
  }
  EXPECT_EQ(max_sessions([](std::size_t) { return true; }, 3, 500), 500u);
  const auto many = max_sessions([](std::size_t n) { return n <= 3333; }, 8, 10000);
  EXPECT_LE(many, 3333u);
  EXPECT_GE(many, 3300u);
}

}  // namespace
}  // namespace outrider
