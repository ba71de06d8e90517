// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

struct Times {
  double step_ms = 1;
  double pass_ms = 20;
  double row_ms = 0;
  double round_trip_ms = 10;
};

Timings timings(const Times& times) {
  Timings known;
  for (std::size_t rows = 1; rows <= 5; ++rows) {
    known.draft_step.add(1, from_ms(times.step_ms));
    known.pass.add(rows, from_ms(times.pass_ms + times.row_ms * static_cast<double>(rows - 1)));
  }
  known.on_request_served(from_ms(times.round_trip_ms));
  return known;
}

// Verdicts of a draft of which so many of four tokens stand, taking so long each.
void play(Controller& controller, int verdicts, std::size_t accepted, double ms, TimePoint& now) {
  for (int i = 0; i < verdicts; ++i) {
    now += from_ms(ms);
    controller.on_verdict(accepted + 1, {.depth = 4, .stood = accepted}, now);
  }
}

TEST(Controller, BeforeAnythingIsKnownTheVerifierWaitsForNobody) {
  Controller controller(Optimize::kLatency, 4);
  const SpeculationPlan& plan = controller.plan({});
  EXPECT_EQ(plan.gamma, 4);
  EXPECT_EQ(plan.policy.pass_policy, PassPolicy::kEager);
  EXPECT_EQ(plan.policy.patience, Duration{0});
  EXPECT_FALSE(plan.policy.wants_exits);
}

TEST(Controller, AGoodFastDraftNearbyIsWaitedFor) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  play(controller, 10, 3, 30, now);
  const SpeculationPlan& plan = controller.plan(timings({.step_ms = 1, .round_trip_ms = 2}));
  EXPECT_EQ(plan.gamma, 4);
  EXPECT_GE(plan.wait_for, 3);
  EXPECT_GT(plan.policy.patience, from_ms(2 + 3));
}

TEST(Controller, WhatAServersOwnNodesBringSaysNothingOfTheDraft) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  for (int i = 0; i < 20; ++i) {
    now += from_ms(30);
    controller.on_verdict(4, {.depth = 4, .stood = 0}, now);
  }
  const SpeculationPlan& plan = controller.plan(timings({.row_ms = 1, .round_trip_ms = 2}));
  EXPECT_EQ(plan.gamma, 1);
  EXPECT_EQ(plan.wait_for, 0);
}

TEST(Controller, AFarServerGoesOnAlone) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  play(controller, 10, 2, 30, now);
  const SpeculationPlan& plan = controller.plan(timings({.step_ms = 1, .round_trip_ms = 300}));
  EXPECT_EQ(plan.wait_for, 0);
  EXPECT_EQ(plan.policy.patience, Duration{0});
  EXPECT_TRUE(plan.speculates);
}

// A verifier refuses a policy that names more (target.h).
TEST(Controller, PatienceStaysWithinTheProtocolsBound) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  play(controller, 10, 4, 200'000, now);
  const SpeculationPlan& plan =
      controller.plan(timings({.pass_ms = 100'000, .round_trip_ms = 50'000}));
  ASSERT_GT(plan.wait_for, 0);
  EXPECT_EQ(plan.policy.patience, kMaxPatience);
}

TEST(Controller, ASlowDraftIsNotWaitedFor) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  play(controller, 10, 2, 30, now);
  EXPECT_EQ(controller.plan(timings({.step_ms = 50, .round_trip_ms = 1})).wait_for, 0);
}

TEST(Controller, RowsThatCostMoreThanTheyBringAreLeftOut) {
  Controller controller(Optimize::kLatency, 8);
  TimePoint now{};
  for (int i = 0; i < 30; ++i) {
    now += from_ms(20);
    controller.on_verdict(2, {.depth = 4, .stood = 1}, now);  // the first stands, the second never
  }
  const SpeculationPlan& plan = controller.plan(timings({.pass_ms = 20, .row_ms = 4}));
  EXPECT_LE(plan.gamma, 2);
  EXPECT_NEAR(plan.least_chance, 4.0 / 10, 0.01) << "a row takes 4 ms and a token 10";
  EXPECT_EQ(plan.policy.row_limit, 8u) << "the draft may be sure of more";
}

TEST(Controller, TurnsOffWhereATokenTakesLongerThanWithout) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  play(controller, 12, 0, 25, now);
  const SpeculationPlan& plan = controller.plan(timings({.pass_ms = 20, .row_ms = 1.2}));
  EXPECT_FALSE(plan.speculates);
  EXPECT_EQ(plan.policy.pass_policy, PassPolicy::kEager);
  EXPECT_EQ(plan.policy.patience, Duration{0});
  EXPECT_FALSE(plan.policy.wants_exits);
  EXPECT_THAT(plan.reason, HasSubstr("25.0 ms with the draft and 20.0 ms without"));
}

// --- draft and target on the same cores ---------------------------------------------------------

Controller in_turns() {
  return Controller(Optimize::kLatency, 8, kFanOut, true);
}

// Verdicts of the target alone, taking so long each.
void play_alone(Controller& controller, int verdicts, double ms, TimePoint& now) {
  for (int i = 0; i < verdicts; ++i) {
    now += from_ms(ms);
    controller.on_verdict(1, {}, now);
  }
}

TEST(Controller, InTurnsTheTargetBeginsAlone) {
  Controller controller = in_turns();
  TimePoint now{};
  const Timings known = timings({.step_ms = 4, .pass_ms = 20, .row_ms = 1, .round_trip_ms = 0});
  for (int tokens = 0; tokens < 5; ++tokens) {
    const SpeculationPlan& plan = controller.plan(known);
    EXPECT_FALSE(plan.speculates);
    EXPECT_EQ(plan.policy.pass_policy, PassPolicy::kEager);
    play_alone(controller, 1, 20, now);
  }
  const SpeculationPlan& plan = controller.plan(known);
  EXPECT_TRUE(plan.speculates);
  EXPECT_EQ(plan.policy.pass_policy, PassPolicy::kOnRequest) << "every round is waited for";
  EXPECT_EQ(plan.policy.patience, Duration{0});
  EXPECT_FALSE(plan.policy.wants_exits);
  EXPECT_EQ(plan.fan_out, 1) << "nothing is drafted for other outcomes";
  EXPECT_EQ(plan.gamma, 8);
  EXPECT_NEAR(plan.least_chance, (4 + 1) / 20.0, 0.01) << "a token is worth a step and a row";
}

TEST(Controller, InTurnsTheFirstRoundsPrefillIsNotHeldAgainstTheDraft) {
  Controller controller = in_turns();
  TimePoint now{};
  const Timings known = timings({.step_ms = 4, .pass_ms = 20, .round_trip_ms = 0});
  play_alone(controller, 5, 20, now);
  ASSERT_TRUE(controller.plan(known).speculates);
  now += from_ms(1000);  // it reads the prompt
  play(controller, 20, 4, 60, now);
  EXPECT_TRUE(controller.plan(known).speculates) << "12 ms a token, and 20 alone";
}

// Passes of one row are measured here: a line through longer ones would call them shorter.
TEST(Controller, InTurnsADraftIsComparedWithTheTargetAlone) {
  for (const double alone_ms : {20.0, 26.0}) {
    Controller controller = in_turns();
    TimePoint now{};
    const Timings known = timings({.step_ms = 12, .pass_ms = 20, .round_trip_ms = 0});
    play_alone(controller, 5, alone_ms, now);
    ASSERT_TRUE(controller.plan(known).speculates);
    play(controller, 12, 2, 70, now);  // 23 ms a token
    EXPECT_EQ(controller.plan(known).speculates, alone_ms > 23);
  }
}

TEST(Controller, TriesAgainLaterAndLaterAndStaysWhenItPays) {
  Controller controller(Optimize::kLatency, 4);
  const Timings known = timings({.pass_ms = 20, .row_ms = 1.2});
  TimePoint now{};
  std::vector<int> waits;
  for (int trial = 0; trial < 3; ++trial) {
    for (int i = 0; i < 20 && controller.plan(known).speculates; ++i) {
      play(controller, 1, 0, 25, now);
    }
    ASSERT_FALSE(controller.current().speculates);
    int tokens = 0;
    while (!controller.plan(known).speculates) {
      now += from_ms(20);
      controller.on_verdict(1, {}, now);
      ++tokens;
    }
    waits.push_back(tokens);
  }
  EXPECT_THAT(waits, testing::ElementsAre(64, 128, 256));
  for (int i = 0; i < 100; ++i) {
    play(controller, 1, 3, 30, now);
    ASSERT_TRUE(controller.plan(known).speculates);
  }
}

// Passes with exits 5 ms longer than without.
Timings with_dear_exits() {
  Timings known = timings({.pass_ms = 25, .round_trip_ms = 300});
  for (int i = 0; i < 10; ++i) known.plain_pass.add(1, from_ms(20));
  return known;
}

TEST(Controller, WithoutADraftIsAlsoWithoutExits) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  play(controller, 12, 0, 25, now);  // as long as a pass with exits takes
  const SpeculationPlan& plan = controller.plan(with_dear_exits());
  EXPECT_FALSE(plan.speculates);
  EXPECT_THAT(plan.reason, HasSubstr("25.0 ms with the draft and 20.0 ms without"));
}

// One verdict of a pass as the policy wants it: it takes 20 ms and with exits 5 more.
void follow(Controller& controller, Timings& known, const CacheLookup& found, TimePoint& now) {
  const bool exits = controller.current().policy.wants_exits;
  const double ms = exits ? 25 : 20;
  (exits ? known.pass : known.plain_pass).add(5, from_ms(ms));
  controller.on_lookup(found, exits, known);
  now += from_ms(ms);
  controller.on_verdict(1, {.depth = 4}, now);
  controller.plan(known);
}

TEST(Controller, SpeculationThatLosesByItsExitsOnlyGoesOnWithoutThem) {
  Controller controller(Optimize::kLatency, 4);
  controller.target_has_exits(true);
  Timings known = timings({.pass_ms = 25, .round_trip_ms = 10});
  TimePoint now{};
  for (int i = 0; i < 50; ++i) {
    follow(controller, known, {}, now);
    ASSERT_TRUE(controller.current().speculates) << i << ": " << controller.current().reason;
  }
  EXPECT_FALSE(controller.current().policy.wants_exits);
}

TEST(Controller, ExitsThatAloneForeseeRoundsStay) {
  Controller controller(Optimize::kLatency, 4);
  controller.target_has_exits(true);
  Timings known = timings({.pass_ms = 25, .round_trip_ms = 10});
  TimePoint now{};
  int with_exits = 0;
  for (int i = 0; i < 100; ++i) {
    const bool exits = controller.current().policy.wants_exits;
    with_exits += exits ? 1 : 0;
    (exits ? known.pass : known.plain_pass).add(5, from_ms(exits ? 25 : 20));
    controller.on_lookup({.named = true,
                          .drafted = exits ? 4u : 0u,
                          .sent_id = 9,
                          .exit = exits ? std::optional(1) : std::nullopt},
                         exits, known);
    now += from_ms(25);
    controller.on_verdict(exits ? 4 : 1, {.depth = 4, .stood = exits ? 3u : 0u}, now);
    controller.plan(known);
  }
  EXPECT_GT(with_exits, 90) << "a few passes without them tell their cost";
}

TEST(Controller, ExitsWhoseRoundsWouldComeTooLateAreNotAskedFor) {
  for (const double round_trip_ms : {10.0, 300.0}) {
    Controller controller(Optimize::kLatency, 4);
    controller.target_has_exits(true);
    Timings known = timings({.step_ms = 50, .pass_ms = 20, .round_trip_ms = round_trip_ms});
    TimePoint now{};
    bool asked = false;
    for (int i = 0; i < 30; ++i) {
      known.plain_pass.add(1, from_ms(20));
      play(controller, 1, 2, 20, now);
      asked |= controller.plan(known).policy.wants_exits;
    }
    EXPECT_EQ(asked, round_trip_ms < 20);
  }
}

TEST(Controller, ForgoesRunnersUpThatNeverBringARoundAndTriesThemAgain) {
  Controller controller(Optimize::kLatency, 4, 3);
  const Timings known = timings({.pass_ms = 20});
  TimePoint now{};
  bool forgone = false;
  bool back = false;
  for (int i = 0; i < 200; ++i) {
    controller.on_lookup({.named = true, .drafted = 4, .own_chance = 0.9}, false, known);
    play(controller, 1, 3, 30, now);
    const int fan_out = controller.plan(known).fan_out;
    back |= forgone && fan_out == 3;
    forgone |= fan_out == 1;
  }
  EXPECT_TRUE(forgone);
  EXPECT_TRUE(back);
}

TEST(Controller, KeepsRunnersUpThatBringRounds) {
  Controller controller(Optimize::kLatency, 4, 3);
  const Timings known = timings({.pass_ms = 20});
  TimePoint now{};
  for (int i = 0; i < 200; ++i) {
    const bool second = i % 10 == 0;
    controller.on_lookup({.named = true, .drafted = 4, .own_chance = 0.3, .runner_up = second},
                         false, known);
    play(controller, 1, 3, 30, now);
    EXPECT_EQ(controller.plan(known).fan_out, 3);
  }
}

TEST(Controller, AChangedPatienceIsWorthAWord) {
  Controller controller(Optimize::kLatency, 4);
  TimePoint now{};
  play(controller, 10, 3, 30, now);
  const SpeculationPlan before = controller.plan(timings({.step_ms = 1, .round_trip_ms = 2}));
  const SpeculationPlan after = controller.plan(timings({.step_ms = 1, .round_trip_ms = 12}));
  ASSERT_EQ(before.wait_for, after.wait_for);
  EXPECT_GT(after.policy.patience, before.policy.patience);
  EXPECT_FALSE(after.same_course(before));
  EXPECT_THAT(after.reason, HasSubstr("the round trip 12.0 ms"));
}

TEST(Controller, AProbeKeepsItsReasonThoughTheRoundChanges) {
  Controller controller(Optimize::kLatency, 8);
  TimePoint now{};
  const Timings before = timings({.pass_ms = 20, .row_ms = 1.2});
  for (int i = 0; i < 20 && controller.plan(before).speculates; ++i) {
    play(controller, 1, 0, 25, now);
  }
  ASSERT_FALSE(controller.current().speculates);
  const int gamma = controller.current().gamma;
  for (int i = 0; i < 64; ++i) {
    now += from_ms(20);
    controller.on_verdict(1, {}, now);
  }
  const SpeculationPlan& plan = controller.plan(timings({.pass_ms = 20, .row_ms = 0}));
  EXPECT_TRUE(plan.speculates);
  EXPECT_NE(plan.gamma, gamma);
  EXPECT_EQ(plan.reason, "to see whether it pays by now");
}

TEST(Controller, ForCostEveryPassWaitsForAWholeRound) {
  Controller controller(Optimize::kCost, 6);
  TimePoint now{};
  play(controller, 50, 0, 500, now);
  const SpeculationPlan& plan = controller.plan(timings({.round_trip_ms = 500}));
  EXPECT_TRUE(plan.speculates);
  EXPECT_EQ(plan.gamma, 6);
  EXPECT_EQ(plan.policy.pass_policy, PassPolicy::kOnRequest);
}

TEST(Controller, BalancedWaitsWhereLatencyDoesNot) {
  const Timings known = timings({.step_ms = 4, .pass_ms = 20, .round_trip_ms = 20});
  TimePoint now{};
  Controller fast(Optimize::kLatency, 4);
  play(fast, 20, 2, 25, now);
  Controller balanced(Optimize::kBalanced, 4);
  play(balanced, 20, 2, 25, now);
  EXPECT_EQ(fast.plan(known).wait_for, 0);
  EXPECT_GT(balanced.plan(known).wait_for, 0);
}

TEST(Acceptance, IsLearntByDepth) {
  AcceptanceByDepth acceptance;
  EXPECT_EQ(acceptance.of(0), 1.0);
  EXPECT_GT(acceptance.of(1), acceptance.of(2));
  for (int i = 0; i < 100; ++i) acceptance.record(4, 2);
  EXPECT_GT(acceptance.of(2), 0.75);
  EXPECT_LT(acceptance.of(3), 0.15);
}

// --- how an answer begins -----------------------------------------------------------------------

TEST(Controller, OnALinkThatHoldsManyPassesAnAnswerBeginsWithoutADraft) {
  Controller controller(Optimize::kLatency, 4);
  controller.on_verdict(1, {}, TimePoint{});
  const SpeculationPlan& plan =
      controller.plan(timings({.step_ms = 1, .pass_ms = 3, .round_trip_ms = 50}));
  EXPECT_FALSE(plan.speculates);
  EXPECT_THAT(plan.reason, HasSubstr("17 tokens ahead"));
}

TEST(Controller, WithADraftThatIsSlowerThanTheTargetAnAnswerBeginsWithoutIt) {
  Controller controller(Optimize::kLatency, 4);
  controller.on_verdict(1, {}, TimePoint{});
  const SpeculationPlan& plan =
      controller.plan(timings({.step_ms = 64, .pass_ms = 20, .round_trip_ms = 8}));
  EXPECT_FALSE(plan.speculates);
  EXPECT_THAT(plan.reason, HasSubstr("cannot get ahead"));
}

TEST(Controller, WhereTheDraftMayComeInTimeItBeginsWithOne) {
  for (const Times& times : {Times{.step_ms = 8, .pass_ms = 18, .round_trip_ms = 190},
                             Times{.step_ms = 1, .pass_ms = 3, .round_trip_ms = 2}}) {
    Controller controller(Optimize::kLatency, 4);
    controller.on_verdict(1, {}, TimePoint{});
    EXPECT_TRUE(controller.plan(timings(times)).speculates) << times.round_trip_ms;
  }
}

TEST(Controller, TheNumbersSpeakOnceAndThenWhatIsMeasured) {
  Controller controller(Optimize::kLatency, 4);
  const Timings far = timings({.step_ms = 1, .pass_ms = 3, .round_trip_ms = 50});
  TimePoint now{};
  controller.on_verdict(1, {}, now);
  controller.plan(far);
  play(controller, 70, 0, 3, now);
  EXPECT_TRUE(controller.plan(far).speculates) << "a trial after 64 tokens";
}

TEST(Controller, AnAnswerBeginsWhereTheLastOneEnded) {
  Controller before(Optimize::kLatency, 4);
  TimePoint now{};
  play(before, 20, 3, 30, now);
  PairProfile profile;
  ASSERT_TRUE(before.save_to(profile));
  EXPECT_EQ(profile.tried.size(), 4u);
  EXPECT_TRUE(profile.speculates);
  Controller after(Optimize::kLatency, 4);
  after.warm_start(profile);
  PairProfile again;
  ASSERT_TRUE(after.save_to(again));
  EXPECT_EQ(again.tried, profile.tried);
  EXPECT_EQ(again.stood, profile.stood);
}

TEST(Controller, WhatDidNotPayIsTriedAgainLater) {
  Controller controller(Optimize::kLatency, 4);
  controller.warm_start({.tried = {20},
                         .stood = {5},
                         .speculates = false,
                         .probe_in = 128,
                         .probe_after = 128,
                         .answers = 2,
                         .passes = {}});
  EXPECT_FALSE(controller.current().speculates) << "before the first verdict";
  const Timings near = timings({});
  TimePoint now{};
  play(controller, 127, 0, 20, now);
  EXPECT_FALSE(controller.plan(near).speculates);
  play(controller, 2, 0, 20, now);
  EXPECT_TRUE(controller.plan(near).speculates);
}

TEST(Controller, ShortAnswersTogetherReachTheNextTrial) {
  const Timings near = timings({});
  PairProfile profile = {.tried = {20},
                         .stood = {5},
                         .speculates = false,
                         .probe_in = 64,
                         .probe_after = 128,
                         .answers = 2,
                         .passes = {}};
  for (int answer = 0; answer < 2; ++answer) {
    Controller controller(Optimize::kLatency, 4);
    controller.warm_start(profile);
    TimePoint now{};
    play(controller, 30, 0, 20, now);
    EXPECT_FALSE(controller.plan(near).speculates);
    ASSERT_TRUE(controller.save_to(profile));
  }
  EXPECT_EQ(profile.probe_in, 4u);
  Controller third(Optimize::kLatency, 4);
  third.warm_start(profile);
  TimePoint now{};
  play(third, 5, 0, 20, now);
  EXPECT_TRUE(third.plan(near).speculates);
}

TEST(Controller, AnAnswerThatSawNoDraftTeachesNothing) {
  Controller controller(Optimize::kLatency, 4);
  controller.on_verdict(1, {}, TimePoint{});
  PairProfile profile;
  EXPECT_FALSE(controller.save_to(profile));
}

}  // namespace
}  // namespace outrider
