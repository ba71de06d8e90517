// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/flash_bandwidth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(BandwidthTest, ReadsRatesAndKindsOfFlash) {
  EXPECT_DOUBLE_EQ(*parse_bandwidth("400MB/s"), 4e8);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("1.5GB/s"), 1.5e9);
  EXPECT_DOUBLE_EQ(*parse_bandwidth("ufs4.0"), 4.2e9);
}

TEST(BandwidthTest, RefusesWhatIsNoRate) {
  for (const char* text : {"", "400", "400MB", "-1MB/s", "0MB/s", "nanMB/s", "1e20GB/s", "ufs9"}) {
    EXPECT_THAT(parse_bandwidth(text).status().message(), testing::HasSubstr("400MB/s")) << text;
  }
}

}  // namespace
}  // namespace outrider
