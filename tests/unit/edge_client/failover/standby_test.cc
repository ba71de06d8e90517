// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/standby.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace outrider {
namespace {

class StandbyTest : public testing::Test {
 protected:
  std::optional<StandBy> follow(std::size_t length) {
    const std::vector<TokenId> text(length, 7);
    Open like;
    like.seed = 5;
    like.end_position = 1000;
    like.prefix_length = 3;
    like.prefix_hash = "ab";
    like.expected_fingerprint = "f";
    return standby_.follow(text, like, "before");
  }
  std::optional<Status> ended(std::uint32_t epoch, Status status) {
    return standby_.on({epoch, StreamEnded{std::move(status)}});
  }

  Standby standby_{8};
};

TEST_F(StandbyTest, ReadsTheTextAndOneTokenAndNoMore) {
  const auto begun = follow(20);
  ASSERT_TRUE(begun);
  EXPECT_TRUE(Standby::owns(begun->epoch));
  const auto& open = std::get<Open>(begun->open.body);
  EXPECT_EQ(open.prefix.size(), 20u);
  EXPECT_EQ(open.prefix_length, 0);
  EXPECT_EQ(open.prefix_hash, "");
  EXPECT_EQ(open.end_position, 21);
  EXPECT_EQ(open.seed, 5u);
  EXPECT_EQ(open.replaced_session, "before");
  EXPECT_EQ(open.expected_fingerprint, "");
}

TEST_F(StandbyTest, FollowsAgainWhenItIsDoneAndHalfTheLagIsReached) {
  const auto first = follow(20);
  EXPECT_FALSE(follow(40)) << "it is at work";
  EXPECT_FALSE(ended(first->epoch, {}));
  EXPECT_FALSE(follow(23));
  const auto second = follow(24);
  ASSERT_TRUE(second);
  EXPECT_FALSE(ended(first->epoch, unavailable("late"))) << "of the stream before";
  EXPECT_FALSE(follow(60));
}

// The text grows by a token at a time, and a pass takes as long as `during` tokens of it. Returns
// how far behind the device was at most, behind its first pass.
Position most_behind(Standby& standby, std::size_t during) {
  std::size_t read = 0, reads = 0, done_at = 0;
  std::uint32_t epoch = 0;
  Position most = 0;
  for (std::size_t end = 20; end < 300; ++end) {
    if (reads > 0) most = std::max(most, static_cast<Position>(read > 0 ? end - read : 0));
    if (reads > 0 && end >= done_at) {
      EXPECT_FALSE(standby.on({epoch, StreamEnded{}}));
      read = std::exchange(reads, 0);
    }
    if (const auto begun = standby.follow(std::vector<TokenId>(end, 7), Open{}, "before")) {
      epoch = begun->epoch;
      reads = end;
      done_at = end + during;
    }
  }
  return most;
}

TEST_F(StandbyTest, IsNeverFurtherBehindThanTheLagIfItReadsHalfOfItInTime) {
  for (std::size_t during = 1; during <= 4; ++during) {
    Standby standby(8);
    EXPECT_LE(most_behind(standby, during), 8) << during;
    EXPECT_FALSE(standby.too_far_behind());
  }
}

TEST_F(StandbyTest, ASlowDeviceReadsWithoutAPauseAndSaysOnceHowFarBehindItIs) {
  for (std::size_t during = 5; during <= 40; during += 7) {
    Standby standby(8);
    const Position most = most_behind(standby, during);
    EXPECT_GT(most, 8) << during;
    EXPECT_LE(most, static_cast<Position>(2 * during));
    const auto told = standby.too_far_behind();
    ASSERT_TRUE(told);
    EXPECT_NE(told->find("up to " + std::to_string(2 * during) + " tokens"), std::string::npos);
    EXPECT_FALSE(standby.too_far_behind());
  }
}

TEST_F(StandbyTest, AFailureEndsItAndIsToldOnce) {
  const auto first = follow(20);
  const auto why = ended(first->epoch, data_loss("bad extent"));
  ASSERT_TRUE(why);
  EXPECT_EQ(why->message(), "bad extent");
  EXPECT_FALSE(follow(100));
}

TEST_F(StandbyTest, WithoutALagThereIsNone) {
  Standby none(0);
  EXPECT_FALSE(none.follow(std::vector<TokenId>(100, 7), Open{}, ""));
}

}  // namespace
}  // namespace outrider
