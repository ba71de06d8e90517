// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/speculation_notice.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kShort = SpeculationNotice::kHolds - milliseconds(1);

TEST(SpeculationNoticeTest, AChangeThatHoldsIsToldOnceWithItsReason) {
  SpeculationNotice told;
  TimePoint now{};
  told.begin(true, "", now);
  told.on_change(false, "it is slower", now);
  EXPECT_EQ(told.due(now + kShort), std::nullopt);
  EXPECT_EQ(told.due(now += SpeculationNotice::kHolds), "speculation: OFF, because it is slower");
  EXPECT_EQ(told.due(now += seconds(60)), std::nullopt);
  told.on_change(true, "to see whether it pays by now", now);
  EXPECT_EQ(told.due(now + SpeculationNotice::kHolds),
            "speculation: ON again to see whether it pays by now");
}

TEST(SpeculationNoticeTest, WhatFlipsAndFlipsBackIsNotTold) {
  SpeculationNotice told;
  TimePoint now{};
  told.begin(true, "", now);
  for (int flip = 0; flip < 20; ++flip) {
    told.on_change(flip % 2 == 1, "it flips", now);
    EXPECT_EQ(told.due(now += kShort), std::nullopt) << flip;
  }
}

TEST(SpeculationNoticeTest, ATrialInBetweenBeginsTheWaitAnew) {
  SpeculationNotice told;
  TimePoint now{};
  told.begin(true, "", now);
  told.on_change(false, "first", now);
  told.on_change(true, "trial", now + seconds(3));
  told.on_change(false, "second", now + seconds(4));
  EXPECT_EQ(told.due(now + seconds(8)), std::nullopt);
  EXPECT_EQ(told.due(now + seconds(9)), "speculation: OFF, because second");
}

TEST(SpeculationNoticeTest, AnAnswerThatBeginsAsTheLastEndedIsNoNews) {
  SpeculationNotice told;
  TimePoint now{};
  told.begin(false, "it did not pay", now);
  EXPECT_EQ(told.due(now += seconds(60)), std::nullopt) << "who began the first answer told it";
  told.begin(false, "it did not pay", now);
  EXPECT_EQ(told.due(now += seconds(60)), std::nullopt);
  told.begin(true, "with what was learnt", now);
  EXPECT_EQ(told.due(now += seconds(60)), "speculation: ON again with what was learnt");
}

TEST(SpeculationNoticeTest, AChangeAtAnAnswersEndIsToldIfTheNextOneGoesOnWithIt) {
  SpeculationNotice goes_on, goes_back;
  for (SpeculationNotice* told : {&goes_on, &goes_back}) {
    told->begin(true, "", TimePoint{});
    told->on_change(false, "it is slower", TimePoint{} + seconds(1));
  }
  goes_on.begin(false, "it did not pay", TimePoint{} + seconds(60));
  EXPECT_EQ(goes_on.due(TimePoint{} + seconds(60)), "speculation: OFF, because it is slower");
  goes_back.begin(true, "", TimePoint{} + seconds(60));
  EXPECT_EQ(goes_back.due(TimePoint{} + seconds(120)), std::nullopt);
}

}  // namespace
}  // namespace outrider
