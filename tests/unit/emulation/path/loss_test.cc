// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/impaired_path.h"

#include <gtest/gtest.h>

#include <chrono>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kPackets = 200'000;

double lost_share(const LossSettings& settings) {
  LossModel loss(settings, 3);
  int lost = 0;
  for (int i = 0; i < kPackets; ++i) lost += loss.loses(Duration::zero()) ? 1 : 0;
  return static_cast<double>(lost) / kPackets;
}

TEST(LossTest, SinglePacketsAreLostByTheirShare) {
  EXPECT_EQ(lost_share({}), 0);
  EXPECT_EQ(lost_share({.share = 1}), 1);
  EXPECT_NEAR(lost_share({.share = 0.02}), 0.02, 0.002);
  EXPECT_NEAR(mean_loss({.share = 0.02}), 0.02, 1e-12);
}

TEST(LossTest, BurstsLoseTheirShareInRuns) {
  LossSettings settings;
  settings.burst = {.to_bad = 0.01, .to_good = 0.09, .loss_when_bad = 1};
  EXPECT_NEAR(mean_loss(settings), 0.1, 1e-12);
  LossModel loss(settings, 5);
  int lost = 0, runs = 0;
  bool before = false;
  for (int i = 0; i < kPackets; ++i) {
    const bool now = loss.loses(Duration::zero());
    lost += now ? 1 : 0;
    runs += now && !before ? 1 : 0;
    before = now;
  }
  EXPECT_NEAR(static_cast<double>(lost) / kPackets, 0.1, 0.01);
  EXPECT_NEAR(static_cast<double>(lost) / runs, 1 / 0.09, 0.7);  // the mean length of a burst
}

TEST(LossTest, WindowsLoseInTheirTimeOnly) {
  LossSettings settings;
  settings.windows = {{.first = seconds(10), .length = milliseconds(200), .period = seconds(30)},
                      {.first = seconds(5), .length = seconds(1), .share = 0.5}};
  EXPECT_EQ(window_loss(settings, milliseconds(9'999)), 0);
  EXPECT_EQ(window_loss(settings, seconds(10)), 1);
  EXPECT_EQ(window_loss(settings, milliseconds(10'199)), 1);
  EXPECT_EQ(window_loss(settings, milliseconds(10'200)), 0);
  EXPECT_EQ(window_loss(settings, milliseconds(40'100)), 1);
  EXPECT_EQ(window_loss(settings, milliseconds(5'500)), 0.5);
  EXPECT_EQ(window_loss(settings, milliseconds(35'500)), 0);
  EXPECT_NEAR(mean_loss(settings), 0.2 / 30, 1e-12);
  LossModel loss(settings, 1);
  EXPECT_FALSE(loss.loses(seconds(1)));
  EXPECT_TRUE(loss.loses(seconds(10)));
}

}  // namespace
}  // namespace outrider
