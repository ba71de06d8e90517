// The controller where the fewest joules are asked for. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/unit/edge_client/speculation/played_verdicts.h"

namespace outrider {
namespace {

Controller for_energy(const EnergyWeights& weights) {
  return Controller(Optimize::kEnergy, 8, kFanOut, false, weights);
}

TEST(Controller, ForEnergyNothingIsDraftedAheadAndEveryRoundIsWaitedFor) {
  Controller controller = for_energy({.drafting = 1});
  TimePoint now{};
  const Timings known = timings({.step_ms = 4, .pass_ms = 100, .row_ms = 1, .round_trip_ms = 10});
  EXPECT_FALSE(controller.plan(known).speculates) << "first what a token takes alone";
  play_alone(controller, 5, 100, now);
  const SpeculationPlan& plan = controller.plan(known);
  EXPECT_TRUE(plan.speculates);
  EXPECT_EQ(plan.policy.pass_policy, PassPolicy::kOnRequest);
  EXPECT_EQ(plan.fan_out, 1);
  EXPECT_NEAR(plan.least_chance, (2 * 4 + 1) / 100.0, 0.01) << "a step counts twice";
}

// Waiting for rounds costs the device that waits, and the server nothing.
TEST(Controller, ForEnergyNoRoundIsTriedThatIsNotWorthItsWait) {
  for (const double round_trip_ms : {10.0, 300.0}) {
    Controller controller = for_energy({.drafting = 1});
    TimePoint now{};
    const Timings known = timings({.step_ms = 4, .pass_ms = 100, .round_trip_ms = round_trip_ms});
    play_alone(controller, 200, 100, now);
    EXPECT_EQ(controller.plan(known).speculates, round_trip_ms < 100) << round_trip_ms;
  }
}

TEST(Controller, ForEnergyADraftThatTakesMuchPowerIsNotTried) {
  const Timings known = timings({.step_ms = 10, .pass_ms = 40, .round_trip_ms = 0});
  TimePoint now{};
  Controller light = for_energy({.drafting = 0.5}), heavy = for_energy({.drafting = 8});
  play_alone(light, 5, 40, now);
  play_alone(heavy, 5, 40, now);
  EXPECT_TRUE(light.plan(known).speculates);
  EXPECT_FALSE(heavy.plan(known).speculates);
}

// 70 ms for four tokens are less time than 20 ms a token, but with five steps at twice the power
// they are not less energy.
TEST(Controller, ForEnergyATrialIsJudgedByJoules) {
  for (const double drafting : {0.0, 1.0}) {
    Controller controller = for_energy({.drafting = drafting});
    TimePoint now{};
    const Timings known = timings({.step_ms = 4, .pass_ms = 20, .round_trip_ms = 0});
    play_alone(controller, 5, 20, now);
    ASSERT_TRUE(controller.plan(known).speculates);
    play(controller, 20, 3, 70, now, known);  // 17.5 ms a token; 22.5 with the steps' power
    EXPECT_EQ(controller.plan(known).speculates, drafting == 0) << drafting;
  }
}

// A server whose passes take much power makes drafts worth more: they save passes.
TEST(Controller, ForEnergyAServersPassesCountIfTheirPowerIsKnown) {
  const Timings known = timings({.step_ms = 4, .pass_ms = 20, .round_trip_ms = 60});
  TimePoint now{};
  Controller device = for_energy({.drafting = 1}), whole = for_energy({.drafting = 1, .pass = 10});
  play_alone(device, 5, 20, now, known);
  play_alone(whole, 5, 20, now, known);
  EXPECT_FALSE(device.plan(known).speculates);
  EXPECT_TRUE(whole.plan(known).speculates);
}

}  // namespace
}  // namespace outrider
