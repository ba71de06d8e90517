// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/load.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

ClientLoad load_with(double acceptance) {
  ClientLoad load;
  load.acceptance = acceptance;
  return load;
}

// Rounds of a pair's own gamma bring its measured tau.
TEST(LoadTest, DrawnRoundsHaveTheMeasuredTau) {
  const auto pairs = find_capacity_pairs({"all"});
  for (const CapacityPair& pair : *pairs) {
    const ClientLoad load = load_with(pair.acceptance());
    double tokens = 0;
    constexpr int kRounds = 20000;
    for (int i = 0; i < kRounds; ++i) {
      tokens +=
          1 + accepted(load, {.client = 3, .number = 1}, 100 * i, static_cast<int>(pair.gamma));
    }
    EXPECT_NEAR(tokens / kRounds, pair.tau, 0.04) << pair.name;
  }
}

TEST(LoadTest, DrawsDependOnSeedClientAndRequestAlone) {
  ClientLoad load = load_with(0.5);
  const RequestId request{.client = 7, .number = 2};
  const RequestLengths lengths = lengths_of(load, request);
  EXPECT_EQ(lengths.answer, lengths_of(load, request).answer);
  int other_clients = 0, other_seeds = 0;
  ClientLoad seeded = load;
  seeded.seed = 2;
  for (int position = 0; position < 200; ++position) {
    const bool own = stands(load, request, position);
    other_clients += own != stands(load, {.client = 8, .number = 2}, position) ? 1 : 0;
    other_seeds += own != stands(seeded, request, position) ? 1 : 0;
  }
  EXPECT_GT(other_clients, 50);
  EXPECT_GT(other_seeds, 50);
}

TEST(LoadTest, LengthsKeepWithinHalfOfTheirMeans) {
  ClientLoad load;
  load.prompt = 40;
  load.answer = 100;
  double prompts = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const RequestLengths lengths = lengths_of(load, {.client = 0, .number = i});
    EXPECT_GE(lengths.prompt, 20);
    EXPECT_LE(lengths.prompt, 60);
    EXPECT_GE(lengths.answer, 50);
    EXPECT_LE(lengths.answer, 150);
    prompts += lengths.prompt;
  }
  EXPECT_NEAR(prompts / 2000, 40, 1);
}

// Its source has one pass time, so more rows would cost nothing.
TEST(LoadTest, APaceWithoutACurveByRowsIsRefusedByName) {
  const auto one_time = find_capacity_paces({"rtx-68m-7b"});
  ASSERT_FALSE(one_time.ok());
  EXPECT_NE(one_time.status().message().find("--pace rtx-68m-7b: its source"), std::string::npos);
  const auto unknown = find_capacity_paces({"table9-5ms", "tpu"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("--pace tpu: not known; there are all, table9-5ms"),
            std::string::npos);
  EXPECT_FALSE(find_capacity_pairs({"nobody"}).ok());
  EXPECT_FALSE(find_capacity_pairs({}).ok());
}

TEST(LoadTest, CurvesEndWithTheirLastSourcedRow) {
  const auto paces = find_capacity_paces({"all"});
  for (const CapacityPace& pace : *paces) {
    const auto& points = pace.pass.points();
    ASSERT_GE(points.size(), 2u) << pace.name;
    EXPECT_GT(points.back().ms, points[points.size() - 2].ms) << pace.name;
  }
  EXPECT_EQ(paces->front().last_row(), 64);
  for (const char* text : {"", "20", "1:20", "1:0,4:10", "4:10,1:20"}) {
    EXPECT_FALSE(parse_capacity_curve(text).ok()) << text;
  }
  EXPECT_TRUE(parse_capacity_curve("1:20,8:30").ok());
}

TEST(LoadTest, ALinkAddsTheTimeOfItsBytes) {
  EXPECT_EQ(to_ms((LinkLoad{.delay = from_ms(5), .bit_per_s = 8e6}.time_of(1000))), 6);
  EXPECT_EQ(to_ms((LinkLoad{.delay = from_ms(5), .bit_per_s = 0}.time_of(1000))), 5);
}

}  // namespace
}  // namespace outrider
