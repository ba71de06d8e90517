// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(PrintedClaimTest, OursIsJudgedAndElseTheFormula) {
  PrintedClaim claim{.what = "speed-up", .printed = 2, .band = Band::near(2, 0.1)};
  EXPECT_EQ(claim.verdict(), ClaimVerdict::kQuoted);
  claim.formula = 1.85;
  EXPECT_EQ(claim.verdict(), ClaimVerdict::kAgrees);
  claim.ours = 1.75;
  EXPECT_EQ(claim.verdict(), ClaimVerdict::kDisagrees);
  claim.reason = "the pair is another one";
  EXPECT_EQ(claim.verdict(), ClaimVerdict::kExplained);
}

TEST(PrintedClaimTest, BandsHoldTheirEnds) {
  EXPECT_TRUE(Band::within(1.08, 0.03).holds(1.06));
  EXPECT_FALSE(Band::within(1.08, 0.03).holds(1.04));
  EXPECT_TRUE(Band::at_least(1).holds(1));
  EXPECT_FALSE(Band::at_least(1).holds(0.99));
  EXPECT_TRUE(Band::at_most(1).holds(1));
  EXPECT_FALSE(Band::at_most(1).holds(1.01));
}

TEST(PrintedClaimTest, PeopleReadEachReasonOnce) {
  const std::vector<PrintedClaim> claims = {
      {.what = "a", .printed = 1, .ours = 1, .band = Band::near(1, 0.1)},
      {.what = "b", .printed = 1, .ours = 2, .band = Band::near(1, 0.1), .reason = "of noise"},
      {.what = "c", .printed = 1, .ours = 3, .band = Band::near(1, 0.1), .reason = "of noise"}};
  const std::string text = verdicts_for_people(claims);
  EXPECT_THAT(text, HasSubstr("1 of 3 figures agree, 2 differ for a known reason"));
  EXPECT_THAT(text, HasSubstr("because of noise:\n  b: printed 1, ours 2\n  c: printed 1, ours 3"));
  EXPECT_THAT(text, Not(HasSubstr("without a recorded reason:")));
}

TEST(PrintedClaimTest, AnOpenEndOfABandIsNull) {
  const Json json =
      to_json(PrintedClaim{.what = "a", .printed = 1, .ours = 2, .band = Band::at_least(1)});
  EXPECT_EQ(json["band"], Json::parse("[1.0, null]"));
  EXPECT_EQ(json["verdict"], "agrees");
}

}  // namespace
}  // namespace outrider
