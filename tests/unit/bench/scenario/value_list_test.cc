// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/run_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ValueBounds kAny{0, 1e6};

TEST(ValueListTest, ListsAndRangesAreReadInOrder) {
  EXPECT_THAT(*parse_values("0,0.7", "--temp", kAny), ElementsAre(0, 0.7));
  EXPECT_THAT(*parse_values("0-100+25", "--delay-ms", kAny), ElementsAre(0, 25, 50, 75, 100));
  EXPECT_THAT(*parse_whole_values("8,2-4", "--n", kAny), ElementsAre(8, 2, 3, 4));
  EXPECT_THAT(*parse_values("1e-3", "--x", kAny), ElementsAre(0.001));
}

TEST(ValueListTest, WhatCannotBeMeantIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no number"},       {"1,,2", "no number"}, {"5-1", "descends"},  {"1-2+0", "step"},
      {"1,1", "twice"},        {"1-3,2", "twice"},    {"-1", "not from"},   {"2000000", "not from"},
      {"0-5000", "more than"}, {"four", "no number"}, {"nan", "no number"}, {"1-2+x", "no number"}};
  for (const auto& [text, why] : cases) {
    const auto values = parse_values(text, "--temp", kAny);
    ASSERT_FALSE(values.ok()) << text;
    EXPECT_THAT(values.status().message(), HasSubstr(why)) << text;
    EXPECT_THAT(values.status().message(), HasSubstr("--temp"));
  }
  EXPECT_THAT(parse_whole_values("2.5", "--n", kAny).status().message(), HasSubstr("no whole"));
}

}  // namespace
}  // namespace outrider
