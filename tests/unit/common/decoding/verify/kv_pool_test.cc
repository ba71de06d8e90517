// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/memory/kv_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using Text = std::vector<TokenId>;

// `count` tokens, those of one `first` other than those of another.
Text text_of(TokenId first, std::size_t count) {
  Text text(count);
  for (std::size_t i = 0; i < count; ++i) text[i] = (first + static_cast<TokenId>(i * i)) % 8;
  text[0] = first;
  return text;
}

Text operator+(Text text, const Text& more) {
  text.insert(text.end(), more.begin(), more.end());
  return text;
}

class KvPoolTest : public testing::Test {
 protected:
  static constexpr std::int64_t kPageBytes = 64 * 1024;

  KvPoolTest() { model_.set_kv_bytes_per_position(1024); }

  KvPool::Lease take(const Text& prefix, const StreamOwner& owner = {}, std::string name = {}) {
    return *pool().take({.id = std::move(name), .key = {}, .owner = owner}, prefix,
                        static_cast<std::int32_t>(prefix.size()));
  }
  // Computes what the lease does not hold of this text.
  void compute(KvPool::Lease& lease, const Text& text) {
    KvSlots& slots = lease.cache->slots();
    PassOutput out;
    for (auto at = static_cast<std::size_t>(slots.committed()); at < text.size(); ++at) {
      ASSERT_TRUE(pool().reserve(lease, 1, 0).ok());
      const Slot slot = *slots.append(kRootSlot);
      const Row row{.cache = lease.cache.get(), .slot = slot, .token = text[at]};
      ASSERT_TRUE(model_.forward({&row, 1}, out).ok());
      slots.commit(slot);
      pool().share(lease, std::span(text).first(at + 1), {});
    }
  }
  // A session that computes the text and ends.
  void keep(const Text& text, const StreamOwner& owner = {}, std::string name = {},
            TimePoint now = {}) {
    KvPool::Lease lease = take(text, owner, name);
    compute(lease, text);
    pool().keep({.id = std::move(name), .key = {}, .owner = owner}, std::move(lease), text, now);
  }
  // Expects that the cache holds the beginning of the text.
  void expect_holds(const KvPool::Lease& lease, const Text& text) {
    auto& pages = static_cast<ToyPages&>(lease.cache->pages());
    for (Slot slot = 0; slot < lease.cache->slots().committed(); ++slot) {
      ASSERT_EQ(pages.at(lease.cache->slots().cell(slot)), text[static_cast<std::size_t>(slot)]);
    }
  }
  KvPool& pool() {
    if (!pool_) pool_.emplace(model_, options_, 4);
    return *pool_;
  }

  ToyModel model_{8, 4096};
  KvPoolOptions options_{.capacity = 1024, .kept = 2, .kept_for = std::chrono::minutes(1)};
  std::optional<KvPool> pool_;
};

TEST_F(KvPoolTest, ASessionBeginsWithTheLongestTextThatIsKept) {
  const Text text = text_of(1, 150);
  keep(text);
  EXPECT_EQ(take(text + Text{3, 3, 3}).cached, 150);
  const KvPool::Lease branches = take(Text(text.begin(), text.begin() + 100) + Text{0, 0, 0});
  EXPECT_GE(branches.cached, 100);
  expect_holds(branches, text);
  EXPECT_EQ(take(Text{7, 7}).cached, 0);
}

TEST_F(KvPoolTest, TheLastTokenOfThePrefixIsAlwaysLeftToCompute) {
  const Text text = text_of(1, 128);
  keep(text);
  EXPECT_EQ(take(text).cached, 127);
  EXPECT_EQ(take({text[0]}).cached, 0);
}

TEST_F(KvPoolTest, TextsThatBeginAlikeAreHeldOnce) {
  const Text beginning = text_of(1, 640);
  std::vector<KvPool::Lease> leases;
  for (TokenId i = 0; i < 8; ++i) {
    const Text text = beginning + Text{i, i, i};
    leases.push_back(take(text));
    compute(leases.back(), text);
    expect_holds(leases.back(), text);
  }
  EXPECT_EQ(pool().used_bytes(), (10 + 8) * kPageBytes) << "and a page for what is each one's own";
}

TEST_F(KvPoolTest, WhoComputedTheSameTextAtTheSameTimeHoldsItOnce) {
  const Text text = text_of(1, 64);
  KvPool::Lease one = take(text), other = take(text);
  EXPECT_EQ(other.cached, 0);
  compute(one, text);
  compute(other, text);
  EXPECT_EQ(pool().used_bytes(), kPageBytes);
  expect_holds(other, text);
}

TEST_F(KvPoolTest, WhoGoesOnFromASharedPageDoesNotChangeIt) {
  const Text text = text_of(1, 100);
  keep(text);
  const Text other = Text(text.begin(), text.begin() + 80) + Text{0, 1, 0, 1, 0, 1};
  KvPool::Lease lease = take(other);
  compute(lease, other);
  expect_holds(lease, other);
  expect_holds(take(text + Text{1}), text);
}

TEST_F(KvPoolTest, AnotherTenantFindsNothing) {
  const Text text = text_of(1, 100);
  keep(text, {"alice", "alice"}, "a");
  EXPECT_EQ(take(text + Text{1}, {"bob", "bob"}, "a").cached, 0);
  EXPECT_EQ(pool().text_of({.id = "a", .key = {}, .owner = {"bob", "bob"}}), nullptr);
  EXPECT_EQ(take(text + Text{1}, {"alice", "alice"}, "b").cached, 100);
}

TEST_F(KvPoolTest, WithoutSharingOnlyASuccessorFindsIt) {
  options_.share_prefixes = false;
  const Text text = text_of(1, 100);
  keep(text, {}, "a");
  EXPECT_EQ(take(text + Text{1}, {}, "b").cached, 0);
  EXPECT_EQ(take(text + Text{1}, {}, "a").cached, 100);
}

// Else the pages that it takes later would be another group's.
TEST_F(KvPoolTest, AGroupKeepsItsNumberWhileItHasALease) {
  const Text text = text_of(1, 10);
  KvPool::Lease first = *pool().take({.id = {}, .key = {}, .owner = {"alice", "alice"}}, text, 0);
  const KvPool::Lease other = *pool().take({.id = {}, .key = {}, .owner = {"bob", "bob"}}, text, 0);
  EXPECT_NE(first.owner, other.owner);
  const std::int32_t freed = first.owner;
  pool().release(std::move(first));
  EXPECT_EQ(take(text, {"carol", "carol"}).owner, freed);
}

TEST_F(KvPoolTest, TwoModelsShareMemoryByWhatAPositionTakes) {
  ModelInfo large, small;
  large.kv_bytes_per_position = 300;
  small.kv_bytes_per_position = 100;
  options_.max_bytes = 4000;
  options_.tenant_bytes = [](const std::string& tenant) { return tenant == "alice" ? 800 : 0; };
  const KvPoolOptions target = part_of(options_, large, small);
  const KvPoolOptions draft = part_of(options_, small, large);
  EXPECT_EQ(target.max_bytes, 3000);
  EXPECT_EQ(draft.max_bytes, 1000);
  EXPECT_EQ(target.tenant_bytes("alice"), 600);
  EXPECT_EQ(draft.tenant_bytes("alice"), 200);
  EXPECT_EQ(draft.tenant_bytes("bob"), 0) << "no bound";
  small.kv_bytes_per_position = 0;
  EXPECT_EQ(part_of(options_, large, small).max_bytes, 4000);
}

TEST_F(KvPoolTest, WhatIsPromisedIsNotPromisedAgain) {
  options_.max_bytes = 4 * kPageBytes;
  const KvPool::Lease first = take(text_of(1, 192));
  const auto second = pool().take({}, text_of(2, 100), 100);
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(pool().why_short(), testing::HasSubstr("--kv-cache-memory"));
  EXPECT_THAT(second.status().message(), testing::Not(testing::HasSubstr("page")));
  EXPECT_TRUE(pool().take({}, text_of(2, 60), 60).ok());
}

TEST_F(KvPoolTest, WhatNobodyUsesGivesWay) {
  options_.max_bytes = 4 * kPageBytes;
  keep(text_of(1, 192));
  EXPECT_EQ(pool().used_bytes(), 3 * kPageBytes);
  const Text text = text_of(2, 250);
  KvPool::Lease lease = take(text);
  compute(lease, text);
  expect_holds(lease, text);
  EXPECT_EQ(pool().used_bytes(), 4 * kPageBytes);
  pool().release(std::move(lease));
}

TEST_F(KvPoolTest, TheEndOfATextGoesBeforeItsBeginning) {
  options_.max_bytes = 4 * kPageBytes;
  const Text text = text_of(1, 192);
  keep(text);
  keep(text_of(2, 128));
  EXPECT_EQ(take(text + Text{1}).cached, 128);
}

// Four short sessions of one peer used to flush what everybody had.
TEST_F(KvPoolTest, WhoKeepsMostDisplacesHisOwn) {
  options_.max_bytes = 5 * kPageBytes;
  const StreamOwner alice{"", "198.51.100.1"};
  const StreamOwner mallory{"", "198.51.100.2"};
  const Text text = text_of(1, 128);
  keep(text, alice, "a");
  for (TokenId i = 2; i < 8; ++i) keep(text_of(i, 120), mallory, "m" + std::to_string(i));
  EXPECT_EQ(take(text + Text{1}, alice).cached, 128);
  EXPECT_NE(pool().text_of({.id = "a", .key = {}, .owner = alice}), nullptr);
  EXPECT_EQ(pool().kept_texts(), 2u);
}

TEST_F(KvPoolTest, WhatNobodyComesForGoesAfterItsTime) {
  const TimePoint start{};
  const Text one = text_of(1, 100), other = text_of(2, 100);
  keep(one, {}, "a", start);
  keep(other, {}, "b", start + std::chrono::seconds(30));
  EXPECT_EQ(pool().next_expiry(), start + std::chrono::minutes(1));
  pool().expire(start + std::chrono::minutes(1));
  EXPECT_EQ(pool().kept_texts(), 1u);
  EXPECT_EQ(take(one + Text{1}).cached, 0);
  pool().expire(start + std::chrono::minutes(5));
  EXPECT_EQ(pool().used_bytes(), 0);
  EXPECT_EQ(pool().next_expiry(), std::nullopt);
}

TEST_F(KvPoolTest, WhatASessionHoldsDoesNotExpire) {
  const Text text = text_of(1, 100);
  KvPool::Lease lease = take(text);
  compute(lease, text);
  pool().expire(TimePoint{} + std::chrono::hours(1));
  expect_holds(lease, text);
  EXPECT_EQ(pool().used_bytes(), 2 * kPageBytes);
}

}  // namespace
}  // namespace outrider
