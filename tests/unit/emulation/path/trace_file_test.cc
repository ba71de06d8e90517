// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/trace_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(TraceFileTest, OpportunitiesAreMillisecondsThatMayRepeat) {
  const auto trace = parse_opportunities("0\n3\r\n\n3\n 17 \n", "t");
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  EXPECT_THAT(trace->ms, ElementsAre(0u, 3u, 3u, 17u));
}

TEST(TraceFileTest, BadOpportunitiesNameTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "t: the trace has zero bytes"},
      {"\n \n", "t: the trace has no line"},
      {"1\nx\n", "t:2: expected milliseconds"},
      {"1\n\n2.5\n", "t:3: expected milliseconds"},
      {"-1\n", "t:1: expected milliseconds"},
      {"99999999999\n", "t:1: expected milliseconds"},
      {"1000000001\n", "t:1: expected milliseconds"},
      {"5\n9\n4\n", "t:3: '4' goes back in time: the line before says 9"},
      {"0\n", "t: ends at 0 ms"},
      {"1 2\n", "t:1: expected 1 number"},
      {"\x01\xff\n",
       "t:1: expected milliseconds, a whole number from 0 to 1000000000, found '?\?'"},
      {"+5\n", "t:1: expected milliseconds"},
      {"nan\n", "t:1: expected milliseconds"},
  };
  for (const auto& [text, message] : cases) {
    const auto trace = parse_opportunities(text, "t");
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_EQ(trace.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(trace.status().message(), HasSubstr(message));
  }
}

TEST(TraceFileTest, AMessageShowsNoMoreThanTheStartOfALine) {
  const auto trace = parse_opportunities(std::string(1'000'000, 'x'), "t");
  ASSERT_FALSE(trace.ok());
  EXPECT_LT(trace.status().message().size(), 200u);
}

TEST(TraceFileTest, RatesCountFromTheFirstLineAndTheLastHoldsTheMeanStep) {
  const auto trace = parse_rates("540.0\t0.5\n545 0\n550\t2\n", "t");
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  ASSERT_EQ(trace->steps.size(), 3u);
  EXPECT_EQ(trace->steps[0].from, Duration::zero());
  EXPECT_EQ(trace->steps[0].bit_per_s, 5e5);
  EXPECT_EQ(trace->steps[2].from, seconds(10));
  EXPECT_EQ(trace->period, seconds(15));
  const auto single = parse_rates("7 1.5", "t");
  ASSERT_TRUE(single.ok());
  EXPECT_EQ(single->period, seconds(1));
}

TEST(TraceFileTest, BadRatesNameTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "zero bytes"},
      {"1 2\n3\n", "t:2: expected 2 numbers"},
      {"1 2 3\n", "t:1: expected 2 numbers"},
      {"0 nan\n", "t:1: expected Mbit/s"},
      {"nan 1\n", "t:1: expected seconds"},
      {"0 inf\n", "t:1: expected Mbit/s"},
      {"0 1e400\n", "t:1: expected Mbit/s"},
      {"0 -1\n", "t:1: expected Mbit/s"},
      {"-1 1\n", "t:1: expected seconds"},
      {"0 1\n2 1\n1 1\n", "t:3: '1 1' goes back in time"},
      {"0 1\n0 1\n", "t:2: '0 1' goes back in time, or stands still"},
      {"0 1\n1e-300 1\n", "t:2: '1e-300 1' goes back in time, or stands still"},
      {"0 0\n1 0\n", "t: lets less than 1 kbit/s pass"},
      {"0 1e-300\n", "t: lets less than 1 kbit/s pass"},
  };
  for (const auto& [text, message] : cases) {
    const auto trace = parse_rates(text, "t");
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_THAT(trace.status().message(), HasSubstr(message)) << text;
  }
}

TEST(TraceFileTest, DelaysAreTenMillisecondsEach) {
  const auto trace = parse_delays("12\n16.5\n0\n", "t");
  ASSERT_TRUE(trace.ok()) << trace.status().to_string();
  EXPECT_THAT(trace->delays, ElementsAre(milliseconds(12), from_ms(16.5), milliseconds(0)));
  EXPECT_EQ(trace->step, milliseconds(10));
}

TEST(TraceFileTest, BadDelaysNameTheirLine) {
  for (const char* bad : {"12\n-1", "12\nnan", "12\n60001", "12\n1 2", "12\n1e999", "12\n-inf"}) {
    const auto trace = parse_delays(bad, "t");
    ASSERT_FALSE(trace.ok()) << bad;
    EXPECT_THAT(trace.status().message(), HasSubstr("t:2: expected"));
  }
  EXPECT_FALSE(parse_delays("", "t").ok());
}

TEST(TraceFileTest, TheFirstLineTellsTheNumberOfColumns) {
  EXPECT_TRUE(has_two_columns("\n0 1\n2\n"));
  EXPECT_FALSE(has_two_columns("\n0\n2 2\n"));
  EXPECT_FALSE(has_two_columns(""));
}

}  // namespace
}  // namespace outrider
