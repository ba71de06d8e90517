// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/select.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/engine/sampling/philox.h"
#include "tests/unit/common/engine/sampling/float_values.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

std::vector<TokenId> best(const std::vector<float>& values, std::size_t count) {
  std::vector<SelectKey> keys;
  select_best(values, count, keys);
  std::vector<TokenId> ids(keys.size());
  std::transform(keys.begin(), keys.end(), ids.begin(), token_of);
  for (const SelectKey key : keys) {
    const float value = values[static_cast<std::size_t>(token_of(key))];
    EXPECT_EQ(value_of(key), std::min(value, std::numeric_limits<float>::max()));
  }
  return ids;
}

TEST(SelectBest, OrdersByValueThenById) {
  EXPECT_THAT(best({1, 3, 2, 3, -1}, 4), ElementsAre(1, 3, 2, 0));
}

TEST(SelectBest, LowerIdsStayAtTheBorder) {
  EXPECT_THAT(best(std::vector<float>(1000, 2.0f), 3), ElementsAre(0, 1, 2));
}

TEST(SelectBest, MinusZeroEqualsZero) {
  EXPECT_THAT(best({-0.0f, 0.0f, -0.0f}, 3), ElementsAre(0, 1, 2));
}

TEST(SelectBest, LeavesOutMinusInfinityAndNaN) {
  EXPECT_THAT(best({-kInfinity, kNaN, 5, -kNaN, -2}, 5), ElementsAre(2, 4));
  EXPECT_THAT(best({kNaN}, 1), ElementsAre());
}

TEST(SelectBest, InfinityEqualsTheLargestNumber) {
  EXPECT_THAT(best({1, std::numeric_limits<float>::max(), kInfinity}, 2), ElementsAre(1, 2));
}

TEST(BestKeys, KeepTheBestOfWhatIsOfferedInAnyOrder) {
  std::vector<SelectKey> keys;
  BestKeys best(2, keys);
  EXPECT_EQ(best.bar(), -kInfinity);
  best.offer(1.0f, 7);
  best.settle();
  EXPECT_EQ(best.bar(), -kInfinity);  // one is not yet two
  best.offer(3.0f, 6);
  best.settle();
  EXPECT_EQ(best.bar(), 1.0f);
  best.offer(1.0f, 2);  // as large as the bar, with a lower id
  best.sort();
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(token_of(keys[0]), 6);
  EXPECT_EQ(token_of(keys[1]), 2);
}

TEST(BestKeys, ForNoneKeepNothing) {
  std::vector<SelectKey> keys = {1, 2, 3};
  BestKeys best(0, keys);
  best.offer(1.0f, 7);
  best.sort();
  EXPECT_TRUE(keys.empty());
}

TEST(SelectBest, AgreesWithASortOfEverything) {
  for (const std::size_t count : {1u, 2u, 7u, 64u, 500u, 999u, 1000u, 5000u}) {
    std::vector<float> values(1000);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      // Few distinct values, so that ties are many.
      values[i] = static_cast<float>(philox({i, 0, 0, 0}, {3, 0})[0] % 97) - 48.0f;
    }
    std::vector<TokenId> ids(values.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
      return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
    });
    ids.resize(std::min(count, ids.size()));
    EXPECT_EQ(best(values, count), ids) << count;
  }
}

}  // namespace
}  // namespace outrider
