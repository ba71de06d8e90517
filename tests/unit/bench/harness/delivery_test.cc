// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/harness/grid.h"
#include "emulation/path/link_spec.h"
#include "emulation/path/stream_path.h"

namespace outrider {
namespace {

AnswerRecord made_in_the_cloud() {
  AnswerRecord record;
  record.stats.prompt_tokens = 100;
  record.stats.completion_tokens = 5;
  record.stats.chunk_at = {from_ms(10), from_ms(30), from_ms(50)};
  record.stats.chunk_tokens = {1, 2, 2};
  record.stats.ttft_ms = 10;
  record.stats.decode_ms = 40;
  record.stats.tpot_ms = 10;
  return record;
}

TEST(DeliveryTest, AFixedDelayMovesTheFirstTokenAndLeavesThePace) {
  AnswerRecord record = made_in_the_cloud();
  ASSERT_TRUE(deliver(delay_profile(from_ms(25)), 0, Duration{0}, 1, record).ok());
  EXPECT_NEAR(*record.stats.ttft_ms, 60, 1e-6) << "up, 10 ms, down";
  EXPECT_NEAR(*record.stats.decode_ms, 40, 1e-6);
  EXPECT_NEAR(*record.stats.tpot_ms, 10, 1e-6);
  EXPECT_NEAR(to_ms(record.stats.chunk_at[2]), 100, 1e-6);
  EXPECT_NEAR(*record.stats.rtt_ms, 50, 1e-6);
  EXPECT_EQ(record.traffic->bytes.framed_up, 580u);
  EXPECT_EQ(record.traffic->bytes.framed_down, 3u * 24 + 5 * 3);
}

TEST(DeliveryTest, ANewConnectionIsGreetedFirst) {
  AnswerRecord record = made_in_the_cloud();
  ASSERT_TRUE(deliver(delay_profile(from_ms(25)), kConnectTrips, Duration{0}, 1, record).ok());
  EXPECT_NEAR(*record.stats.ttft_ms, 160, 1e-6) << "TCP, HTTP/2, up, 10 ms, down";
  EXPECT_NEAR(*record.stats.decode_ms, 40, 1e-6);
}

TEST(DeliveryTest, ASlowLinkHoldsUpTheLastToken) {
  AnswerRecord record = made_in_the_cloud();
  ASSERT_TRUE(
      deliver(*parse_link("ethernet+delay=5ms+rate=10kbit"), 0, Duration{0}, 1, record).ok());
  EXPECT_GT(*record.stats.decode_ms, 100);
  EXPECT_NEAR(*record.stats.tpot_ms, *record.stats.decode_ms / 4, 1e-9);
}

TEST(DeliveryTest, WhatNeverArrivesIsAnError) {
  AnswerRecord record = made_in_the_cloud();
  EXPECT_EQ(deliver(*parse_link("offline"), kConnectTrips, Duration{0}, 1, record).code(),
            StatusCode::kUnavailable);
}

TEST(AgreementTest, EndsWhereTheTextsPart) {
  const std::vector<TokenId> wanted = {1, 2, 3, 4};
  EXPECT_EQ(agreement(wanted, std::vector<TokenId>{1, 2, 3, 4}), 1);
  EXPECT_EQ(agreement(wanted, std::vector<TokenId>{1, 2, 9, 4}), 0.5);
  EXPECT_EQ(agreement(wanted, std::vector<TokenId>{}), 0);
  EXPECT_EQ(agreement({}, std::vector<TokenId>{1}), 1);
}

}  // namespace
}  // namespace outrider
