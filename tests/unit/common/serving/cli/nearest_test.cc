// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/nearest.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

const std::vector<std::string> kFlags = {"--temp", "--top-k", "--top-p", "--server", "--seed"};

TEST(NearestMatch, FindsTheWordBehindOneSlip) {
  EXPECT_EQ(nearest_match("--tmp", kFlags), "--temp");       // a letter left out
  EXPECT_EQ(nearest_match("--tempp", kFlags), "--temp");     // a letter twice
  EXPECT_EQ(nearest_match("--sevrer", kFlags), "--server");  // neighbours swapped
  EXPECT_EQ(nearest_match("--top_k", kFlags), "--top-k");    // a letter replaced
}

TEST(NearestMatch, PrefersTheWordWithFewestEdits) {
  EXPECT_EQ(nearest_match("--top-p", kFlags), "--top-p");
  EXPECT_EQ(nearest_match("--seeed", kFlags), "--seed");
}

TEST(NearestMatch, GuessesNothingWhereNothingIsNear) {
  EXPECT_EQ(nearest_match("--quantum", kFlags), "");
  EXPECT_EQ(nearest_match("--temp", {}), "");
  EXPECT_EQ(nearest_match(std::string(100'000, 'x'), kFlags), "");
}

}  // namespace
}  // namespace outrider
