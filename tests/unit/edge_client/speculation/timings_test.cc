// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/timings.h"

#include <gtest/gtest.h>

#include "edge_client/speculation/sending.h"

namespace outrider {
namespace {

TimePoint at(double ms) {
  return TimePoint{} + from_ms(ms);
}

TEST(RowTimes, AreALineOverTheRows) {
  RowTimes times;
  EXPECT_EQ(times.of(5), Duration{0});
  for (int i = 0; i < 20; ++i) {
    times.add(1, from_ms(20));
    times.add(5, from_ms(28));
  }
  EXPECT_NEAR(to_ms(times.of(1)), 20, 0.1);
  EXPECT_NEAR(to_ms(times.of(3)), 24, 0.1);
  EXPECT_NEAR(to_ms(times.of(7)), 32, 0.1);
}

TEST(RowTimes, OfOneNumberOfRowsAreFlat) {
  RowTimes times;
  for (int i = 0; i < 20; ++i) times.add(5, from_ms(28));
  EXPECT_NEAR(to_ms(times.of(1)), 28, 0.1);
}

TEST(RowTimes, FollowAChangedDevice) {
  RowTimes times;
  for (int i = 0; i < 50; ++i) times.add(1, from_ms(10));
  for (int i = 0; i < 30; ++i) times.add(1, from_ms(40));
  EXPECT_NEAR(to_ms(times.of(1)), 40, 2);
}

TEST(Passes, WithAndWithoutExitsAreKeptApart) {
  Timings timings;
  EXPECT_FALSE(timings.knows_passes());
  for (std::size_t rows = 1; rows <= 5; ++rows) {
    timings.pass.add(rows, from_ms(22 + 2 * static_cast<double>(rows)));
  }
  EXPECT_EQ(timings.exits_cost(), std::nullopt);
  EXPECT_EQ(timings.pass_of(1, false), timings.pass_of(1, true))
      << "an estimate, until one is seen";
  timings.plain_pass.add(4, from_ms(25));
  EXPECT_NEAR(to_ms(*timings.exits_cost()), 5, 0.1) << "at the rows that were seen without them";
  EXPECT_NEAR(to_ms(timings.pass_of(1, false)), 20, 0.1) << "a sixth shorter, as at four rows";
  EXPECT_NEAR(to_ms(timings.pass_of(1, true)), 24, 0.1);
  for (int i = 0; i < 30; ++i) timings.plain_pass.add(1, from_ms(18));
  EXPECT_NEAR(to_ms(timings.pass_of(1, false)), 18, 0.1);
}

TEST(Passes, OfAServerUnderLoadTakeTheRowsOfOthersToo) {
  Timings alone, loaded;
  for (std::size_t rows = 1; rows <= 5; ++rows) {
    const auto time_of = [](std::size_t all) { return from_ms(20 + static_cast<double>(all)); };
    alone.on_pass(rows, 0, false, time_of(rows));
    loaded.on_pass(rows, rows + 16, false, time_of(rows + 16));
  }
  EXPECT_NEAR(to_ms(alone.pass_of(3, false)), 23, 0.1);
  EXPECT_NEAR(to_ms(loaded.pass_of(3, false)), 39, 0.1);
  EXPECT_NEAR(to_ms(loaded.pass_of(9, false)), 45, 0.1) << "six rows more cost what they do alone";
}

TEST(Passes, OfAServerThatIsLeftAloneBecomeShortAgain) {
  Timings timings;
  for (int i = 0; i < 30; ++i) timings.on_pass(4, 20, true, from_ms(40));
  EXPECT_NEAR(to_ms(timings.pass_of(4, true)), 40, 0.1);
  for (int i = 0; i < 60; ++i) timings.on_pass(4, 0, true, from_ms(24));
  EXPECT_NEAR(to_ms(timings.pass_of(4, true)), 24, 0.5);
}

// Speculation went off, as it seemed to take longer than passes of no time at all.
TEST(Passes, OfTheKindThatWasHardlySeenTakeTime) {
  Timings timings;
  timings.pass.add(2, from_ms(400));
  timings.pass.add(3, from_ms(600));
  timings.pass.add(4, from_ms(800));
  timings.plain_pass.add(9, from_ms(820));
  EXPECT_GT(to_ms(timings.pass_of(1, false)), 80);
  EXPECT_LT(timings.pass_of(1, false), timings.pass_of(1, true));
}

TEST(RoundTrip, MayBeAThirdOfWhatOpenTook) {
  Timings timings;
  timings.on_opened(from_ms(600));
  EXPECT_FALSE(timings.has_measured_round_trip());
  EXPECT_EQ(timings.at_best().round_trip(), from_ms(200));
  timings.on_request_served(from_ms(300));
  EXPECT_TRUE(timings.has_measured_round_trip());
  EXPECT_EQ(timings.at_best().round_trip(), from_ms(300));
}

// Speculation went off over a fast link, because the handshakes in Opened counted as its round
// trip.
TEST(RoundTrip, IsNotMeasuredByWhatWasLongerUnderWay) {
  Timings timings;
  timings.on_opened(from_ms(240));
  timings.on_round_trip_bounds({.at_most = {}, .at_least = from_ms(50)});
  EXPECT_FALSE(timings.has_measured_round_trip());
  EXPECT_EQ(timings.at_best().round_trip(), from_ms(80));
  timings.on_round_trip_bounds({.at_most = {}, .at_least = from_ms(120)});
  EXPECT_EQ(timings.at_best().round_trip(), from_ms(120));
}

TEST(RoundTrip, IsBoundedByWhatAPassTookAndWhatItDidNot) {
  Timings timings;
  timings.on_opened(from_ms(500));
  timings.on_round_trip_bounds({.at_most = from_ms(40), .at_least = {}});
  EXPECT_NEAR(to_ms(timings.round_trip()), 40, 0.1);
  timings.on_round_trip_bounds({.at_most = {}, .at_least = from_ms(80)});
  EXPECT_NEAR(to_ms(timings.round_trip()), 80, 0.1);
  timings.on_round_trip_bounds({});
  EXPECT_NEAR(to_ms(timings.round_trip()), 80, 0.1);
}

TEST(RoundTrip, FollowsWhatWasAskedFor) {
  Timings timings;
  timings.on_opened(from_ms(500));
  for (int i = 0; i < 20; ++i) timings.on_request_served(from_ms(30));
  EXPECT_NEAR(to_ms(timings.round_trip()), 30, 1);
}

DraftedRound round_of(std::size_t nodes, double chance) {
  DraftedRound round{.unsent = {}, .chance = chance, .length = nodes - 1};
  for (std::size_t i = 0; i < nodes; ++i) round.unsent.push_back(static_cast<NodeIndex>(i));
  return round;
}

TEST(SendingRule, SendsWholeRoundsAtOnceAndHalfOnesWhenTheyAreDue) {
  const ByteAllowance allowance(0);
  const std::vector<DraftedRound> rounds{round_of(3, 0.6), round_of(5, 0.2)};
  EXPECT_EQ(nodes_to_send(rounds, {.whole = 4, .room = 64}, allowance).size(), 5u);
  EXPECT_EQ(nodes_to_send(rounds, {.whole = 4, .due = true, .room = 64}, allowance).size(), 8u);
  EXPECT_EQ(
      nodes_to_send(rounds, {.whole = 4, .least = 4, .due = true, .room = 64}, allowance).size(),
      5u);
}

TEST(SendingRule, LeavesOutWhatIsUnlikelyAndWhatHasNoRoom) {
  const ByteAllowance allowance(0);
  const std::vector<DraftedRound> rounds{round_of(5, 0.6), round_of(5, 0.3), round_of(5, 0.001)};
  EXPECT_EQ(nodes_to_send(rounds, {.whole = 4, .room = 64}, allowance).size(), 10u);
  EXPECT_EQ(nodes_to_send(rounds, {.whole = 4, .room = 7}, allowance).size(), 5u);
  const double one = ByteAllowance::cost(5);
  EXPECT_EQ(nodes_to_send(rounds, {.whole = 4, .room = 64, .link_room = one}, allowance).size(),
            5u);
}

TEST(SendingRule, SpendsNoMoreThanItsAllowance) {
  ByteAllowance allowance(0);
  int sent = 0;
  while (allowance.covers(5)) {
    allowance.spend(5);
    ++sent;
  }
  EXPECT_GT(sent, 2);
  allowance.on_committed(1000);
  double bytes = 0;
  while (allowance.covers(5)) {
    allowance.spend(5);
    bytes += ByteAllowance::cost(5);
  }
  EXPECT_LT(bytes, 4096) << "a long silence is no reason for a flood";
}

TEST(SendingRule, KeepsABudgetOfBytesPerSecond) {
  ByteAllowance allowance(1000);
  double bytes = 0;
  for (int ms = 0; ms < 10000; ms += 10) {
    allowance.advance(at(1 + ms));
    allowance.on_committed(10);
    if (!allowance.covers(5)) continue;
    allowance.spend(5);
    bytes += ByteAllowance::cost(5);
  }
  EXPECT_GT(bytes, 8000);
  EXPECT_LT(bytes, 11000);
}

TEST(Timings, WhatTheServerSaysIsKnownUntilItIsMeasured) {
  Timings timings;
  timings.on_pass_costs({{{1, from_ms(20)}, {5, from_ms(28)}}, 10});
  EXPECT_TRUE(timings.knows_passes());
  EXPECT_NEAR(to_ms(timings.pass_of(1, false)), 20, 0.5);
  EXPECT_NEAR(to_ms(timings.pass_of(5, true)), 30.8, 0.5);
  for (int i = 0; i < 40; ++i) timings.plain_pass.add(1, from_ms(40));
  EXPECT_NEAR(to_ms(timings.pass_of(1, false)), 40, 2);
  timings.on_pass_costs({{{1, from_ms(5)}}, 0});
  EXPECT_NEAR(to_ms(timings.pass_of(1, false)), 40, 2) << "another stream's word changes nothing";
}

}  // namespace
}  // namespace outrider
