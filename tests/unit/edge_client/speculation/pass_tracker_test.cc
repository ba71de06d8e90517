// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/pass_tracker.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

class PassTrackerTest : public testing::Test {
 protected:
  static TimePoint ms(double time) { return TimePoint{} + from_ms(time); }

  // A pass starts that took the nodes up to this id. Returns how late its round was, if synced.
  std::optional<Duration> starts(NodeId last_id, double time, bool wants_exits = false) {
    return passes_.on_started({.last_id = last_id}, wants_exits, kRoundTrip, ms(time));
  }

  static constexpr Duration kRoundTrip = std::chrono::milliseconds(20);
  PassTracker passes_;
};

TEST_F(PassTrackerTest, AVerifierWaitsUntilItHasARound) {
  EXPECT_TRUE(passes_.verifier_waits());
  passes_.on_round_sent(ms(5));
  EXPECT_FALSE(passes_.verifier_waits());
  EXPECT_EQ(passes_.origin(), ms(5));
  starts(4, 30);
  passes_.on_verdict({});
  passes_.on_next_round(false, kRoundTrip, ms(60));
  EXPECT_TRUE(passes_.verifier_waits());
}

TEST_F(PassTrackerTest, AVerifierThatGoesOnByItselfWaitsForNobody) {
  passes_.on_next_round(true, kRoundTrip, ms(60));
  EXPECT_FALSE(passes_.verifier_waits());
  EXPECT_EQ(passes_.origin(), ms(40)) << "its pass began half a round trip ago";
}

TEST_F(PassTrackerTest, APassThatStartedWaitsForNobody) {
  starts(0, 50);
  EXPECT_FALSE(passes_.verifier_waits());
  EXPECT_EQ(passes_.origin(), ms(30));
}

TEST_F(PassTrackerTest, TheFirstPassIsOverWithItsVerdict) {
  starts(0, 50);
  EXPECT_FALSE(passes_.past_first_pass());
  passes_.on_verdict({});
  EXPECT_TRUE(passes_.past_first_pass());
}

TEST_F(PassTrackerTest, ARequestIsTimedUntilItsPassStartsLessQueueing) {
  passes_.on_request(4, ms(10));
  starts(4, 60);
  EXPECT_EQ(passes_.on_verdict({.queued = from_ms(20)}), from_ms(30));
  starts(4, 100);
  EXPECT_EQ(passes_.on_verdict({}), std::nullopt) << "nobody asked for this pass";
}

TEST_F(PassTrackerTest, WhereOnlyALoadIsToldAFreeDeviceIsTimedAndABusyOneIsNot) {
  passes_.on_request(4, ms(10));
  starts(4, 60);
  EXPECT_EQ(passes_.on_verdict({.load = Load::kFree}), from_ms(50));
  passes_.on_request(8, ms(110));
  starts(8, 190);
  EXPECT_EQ(passes_.on_verdict({.load = Load::kSome}), std::nullopt);
}

TEST_F(PassTrackerTest, ARequestThatThePassDidNotHaveIsNotTimed) {
  passes_.on_request(4, ms(10));
  starts(3, 60);
  EXPECT_EQ(passes_.on_verdict({}), std::nullopt);
  starts(4, 100);
  EXPECT_EQ(passes_.on_verdict({}), std::nullopt) << "the next pass does not answer it";
}

TEST_F(PassTrackerTest, ARoundThatLeftBeforeItsVerdictIsSyncedWithThePassThatTookIt) {
  passes_.on_sent_before_verdict(7, from_ms(3));
  EXPECT_EQ(starts(9, 60), from_ms(3));
  EXPECT_EQ(starts(9, 80), std::nullopt) << "it is counted once";
  passes_.on_sent_before_verdict(7, Duration{0});
  EXPECT_EQ(starts(6, 100), std::nullopt) << "it was still on its way";
  passes_.on_sent_before_verdict(7, Duration{0});
  EXPECT_FALSE(passes_.on_started({.last_id = 9, .left_out = {7}}, false, kRoundTrip, ms(120)));
}

TEST_F(PassTrackerTest, ExitsLookAtAPassThatStartsUnderAPolicyThatWantsThem) {
  EXPECT_EQ(passes_.has_exits(), std::nullopt);
  starts(0, 10, true);
  EXPECT_EQ(passes_.has_exits(), true);
  starts(0, 30, false);
  EXPECT_EQ(passes_.has_exits(), false);
}

TEST_F(PassTrackerTest, APolicyThatMayHaveCrossedTheStartLeavesTheExitsUnknown) {
  passes_.on_exits_changed(ms(100));
  starts(0, 120, true);
  EXPECT_EQ(passes_.has_exits(), std::nullopt) << "one round trip is too soon to be sure";
  starts(0, 130, true);
  EXPECT_EQ(passes_.has_exits(), true);
}

}  // namespace
}  // namespace outrider
