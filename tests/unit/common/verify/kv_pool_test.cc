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
  void keep(const std::string& name, std::vector<TokenId> text, const StreamOwner& owner = {},
            TimePoint now = {}) {
    pool_.keep({.id = name, .key = {}, .owner = owner}, {.cache = cache_with(model_, text)}, text,
               now);
  }
  KvPool::Lease take(const std::string& name, std::vector<TokenId> prefix,
                     const StreamOwner& owner = {}) {
    return *pool_.take({.id = name, .key = {}, .owner = owner}, prefix, 32);
  }

  ToyModel model_;
  KvPool pool_{model_, {.capacity = 32, .kept = 2, .kept_for = std::chrono::minutes(1)}};
};

TEST_F(KvPoolTest, GivesAFreshCacheToWhoReplacesNobody) {
  keep("a", {1, 2, 3});
  const KvPool::Lease taken = take("", {1, 2, 3});
  EXPECT_EQ(taken.cached, 0);
  EXPECT_EQ(taken.cache->slots().committed(), 0);
  EXPECT_EQ(pool_.size(), 1u);
}

TEST_F(KvPoolTest, CutsTheCacheToTheLongestCommonPrefix) {
  keep("a", {1, 2, 3, 4});
  const KvPool::Lease taken = take("a", {1, 2, 7, 4, 5});
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
  EXPECT_TRUE(pool_.take({}, std::vector<TokenId>{1}, 32).ok());
  EXPECT_EQ(pool_.size(), 1u);
  model_.fail_next_caches(2);
  const auto none = pool_.take({}, std::vector<TokenId>{1}, 32);
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
}

// Four short sessions of one peer used to flush what everybody had.
TEST_F(KvPoolTest, WhoKeepsMostDisplacesHisOwn) {
  const StreamOwner alice{"", "198.51.100.1"};
  const StreamOwner mallory{"", "198.51.100.2"};
  keep("a", {1, 2}, alice);
  for (int i = 0; i < 4; ++i) keep("m" + std::to_string(i), {1, 2}, mallory);
  EXPECT_EQ(pool_.size(), 2u);
  EXPECT_EQ(take("a", {1, 2, 3}, alice).cached, 2);
  EXPECT_EQ(take("m3", {1, 2, 3}, mallory).cached, 2);
}

TEST_F(KvPoolTest, WhatNobodyComesForGoesAfterItsTime) {
  const TimePoint start{};
  keep("a", {1, 2}, {}, start);
  keep("b", {1, 2}, {}, start + std::chrono::seconds(30));
  EXPECT_EQ(pool_.next_expiry(), start + std::chrono::minutes(1));
  pool_.expire(start + std::chrono::minutes(1));
  EXPECT_EQ(pool_.size(), 1u);
  EXPECT_EQ(take("b", {1, 2, 3}).cached, 2);
  EXPECT_EQ(pool_.next_expiry(), std::nullopt);
}

TEST_F(KvPoolTest, AnotherTenantsNameFindsNothing) {
  keep("a", {1, 2}, {"alice", "alice"});
  EXPECT_EQ(take("a", {1, 2, 3}, {"bob", "bob"}).cached, 0);
  EXPECT_EQ(take("a", {1, 2, 3}, {"alice", "alice"}).cached, 2);
}

}  // namespace
}  // namespace outrider
