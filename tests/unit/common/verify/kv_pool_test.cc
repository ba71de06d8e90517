// SPDX-License-Identifier: Apache-2.0
#include "common/verify/kv_pool.h"

#include <gtest/gtest.h>

#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

// A cache that holds these tokens, as a session leaves it behind.
std::unique_ptr<KvCache> cache_with(ToyModel& model, std::span<const TokenId> text) {
  std::unique_ptr<KvCache> cache = *model.new_cache(32);
  PassOutput out;
  for (const TokenId token : text) {
    const Slot slot = *cache->slots().append(kRootSlot);
    const Row row{.cache = cache.get(), .slot = slot, .token = token};
    EXPECT_TRUE(model.forward({&row, 1}, out).ok());
    cache->slots().commit(slot);
  }
  return cache;
}

class KvPoolTest : public testing::Test {
 protected:
  void keep(const std::string& name, std::vector<TokenId> text) {
    pool_.keep(name, cache_with(model_, text), text);
  }
  KvPool::Taken take(const std::string& name, std::vector<TokenId> prefix) {
    return *pool_.take(name, prefix);
  }

  ToyModel model_;
  KvPool pool_{model_, 32, 2};
};

TEST_F(KvPoolTest, GivesAFreshCacheToWhoReplacesNobody) {
  keep("a", {1, 2, 3});
  const KvPool::Taken taken = take("", {1, 2, 3});
  EXPECT_EQ(taken.cached, 0);
  EXPECT_EQ(taken.cache->slots().committed(), 0);
  EXPECT_EQ(pool_.size(), 1u);
}

TEST_F(KvPoolTest, CutsTheCacheToTheLongestCommonPrefix) {
  keep("a", {1, 2, 3, 4});
  const KvPool::Taken taken = take("a", {1, 2, 7, 4, 5});
  EXPECT_EQ(taken.cached, 2);
  EXPECT_EQ(taken.cache->slots().committed(), 2);
  EXPECT_EQ(pool_.size(), 0u);
}

TEST_F(KvPoolTest, AlwaysLeavesTheLastTokenOfThePrefixToCompute) {
  keep("a", {1, 2, 3, 4});
  EXPECT_EQ(take("a", {1, 2, 3}).cached, 2);
}

TEST_F(KvPoolTest, ACacheGoesOnlyToWhoNamesItsSession) {
  keep("a", {1, 2, 3});
  EXPECT_EQ(take("b", {1, 2, 3, 4}).cached, 0);
  EXPECT_EQ(take("a", {1, 2, 3, 4}).cached, 3);
  EXPECT_EQ(take("a", {1, 2, 3, 4}).cached, 0) << "and only once";
}

TEST_F(KvPoolTest, DropsTheLongestUnusedFirst) {
  keep("a", {1, 2});
  keep("b", {1, 2});
  keep("c", {1, 2});
  EXPECT_EQ(pool_.size(), 2u);
  EXPECT_EQ(take("a", {1, 2, 3}).cached, 0);
  EXPECT_EQ(take("b", {1, 2, 3}).cached, 2);
}

TEST_F(KvPoolTest, GivesUpKeptCachesWhenMemoryIsShort) {
  keep("a", {1});
  keep("b", {1});
  model_.fail_next_caches(1);
  EXPECT_TRUE(pool_.take("", std::vector<TokenId>{1}).ok());
  EXPECT_EQ(pool_.size(), 1u);
  model_.fail_next_caches(2);
  const auto none = pool_.take("", std::vector<TokenId>{1});
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
