// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/link_condition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "emulation/path/impaired_path.h"
#include "emulation/path/link_spec.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Condition = LinkCondition;

std::vector<Condition> conditions(const std::string& link) {
  return conditions_of(*parse_link(link));
}

LinkProfile replaying(OpportunityTrace trace) {
  LinkProfile profile;
  profile.down.opportunities = std::make_shared<OpportunityTrace>(std::move(trace));
  profile.down.queue_bytes = 100'000;
  return profile;
}

LinkProfile replaying(RateTrace trace) {
  LinkProfile profile;
  profile.up.rates = std::make_shared<RateTrace>(std::move(trace));
  profile.up.queue_bytes = 100'000;
  return profile;
}

TEST(LinkConditionTest, AProfileHoldsWhatItsSettingsSay) {
  EXPECT_THAT(conditions("ethernet"), IsEmpty());
  EXPECT_THAT(conditions("3g"), IsEmpty());
  EXPECT_THAT(conditions("lte"), ElementsAre(Condition::kPacketLoss));
  EXPECT_THAT(conditions("flaky"), ElementsAre(Condition::kPacketLoss)) << "in bursts";
  EXPECT_THAT(conditions("wifi-roam"), ElementsAre(Condition::kPacketLoss, Condition::kBlackOut));
  EXPECT_THAT(conditions("starlink"), ElementsAre(Condition::kLossWindow));
  EXPECT_THAT(conditions("offline"), ElementsAre(Condition::kSilence));
  EXPECT_THAT(conditions("ethernet+reset=1s"), ElementsAre(Condition::kReset));
}

TEST(LinkConditionTest, ATraceHoldsAStallWhereNothingPassesForHalfASecond) {
  EXPECT_THAT(conditions_of(replaying(OpportunityTrace{{1, 400, 800}})), IsEmpty());
  EXPECT_THAT(conditions_of(replaying(OpportunityTrace{{1, 400, 900}})),
              ElementsAre(Condition::kStall));
  const auto rates = [](milliseconds until) {
    return replaying(RateTrace{{{Duration{0}, 1e6}, {milliseconds(500), 0}, {until, 1e6}},
                               std::chrono::seconds(3)});
  };
  EXPECT_THAT(conditions_of(rates(milliseconds(900))), IsEmpty());
  EXPECT_THAT(conditions_of(rates(milliseconds(1000))), ElementsAre(Condition::kStall));
}

TEST(LinkConditionTest, AStallIsMetByWhatStandsStillInIt) {
  const LinkProfile profile = replaying(OpportunityTrace{{100, 1000, 1010}});
  ImpairedPath path(profile.down, 0);
  LinkCounts counts;
  path.send(100, milliseconds(90));
  path.send(100, milliseconds(850));
  counts.down = path.counts();
  EXPECT_FALSE(has_met(counts, Condition::kStall)) << "150 ms";
  path.send(100, milliseconds(1100));
  counts.down = path.counts();
  EXPECT_FALSE(has_met(counts, Condition::kStall)) << "the trace begins again";
  path.send(100, milliseconds(1210));
  counts.down = path.counts();
  EXPECT_TRUE(has_met(counts, Condition::kStall)) << "until 2010 ms";
  EXPECT_EQ(counts.down.stalled, 1u);
}

TEST(LinkConditionTest, LossesCountWhereTheyFell) {
  LinkCounts counts;
  ImpairedPath path(parse_link("ethernet+blackout=100ms/500ms")->up, 0);
  path.send(100, milliseconds(50));
  counts.up = path.counts();
  EXPECT_FALSE(has_met(counts, Condition::kBlackOut));
  path.send(100, milliseconds(150));
  counts.up = path.counts();
  EXPECT_TRUE(has_met(counts, Condition::kBlackOut));
  EXPECT_FALSE(has_met(counts, Condition::kPacketLoss)) << "it was the window's";
  EXPECT_EQ(counts.up.lost, 1u);
  counts.down.lost = 1;
  EXPECT_TRUE(has_met(counts, Condition::kPacketLoss)) << "of either direction";
  EXPECT_FALSE(has_met(counts, Condition::kReset));
  counts += LinkCounts{.resets = 1};
  EXPECT_TRUE(has_met(counts, Condition::kReset));
}

TEST(LinkConditionTest, BytesOverBusyTimeAreTheRate) {
  PathSettings settings;
  settings.bit_per_s = 8e5;  // 100 bytes a millisecond
  settings.queue_bytes = 1000;
  ImpairedPath path(settings, 0);
  path.send(200, milliseconds(0));
  path.send(100, milliseconds(1));   // waits for the first
  path.send(300, milliseconds(50));  // idle between
  EXPECT_EQ(path.counts().bytes, 600u);
  EXPECT_EQ(path.counts().busy_ns, 6'000'000u);
}

}  // namespace
}  // namespace outrider
