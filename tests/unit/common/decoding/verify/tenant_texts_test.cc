// Texts that sessions leave to later ones of their tenant, alone and over a scheduler.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/memory/tenant_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/common/decoding/verify/batch_fixture.h"

namespace outrider {
namespace {

using testing::ElementsAreArray;

constexpr std::size_t kMinCounted = 4096;  // that a tenant counts

// Tokens that rise from `first`.
std::vector<TokenId> rising(TokenId first, std::size_t count) {
  std::vector<TokenId> text(count);
  std::iota(text.begin(), text.end(), first);
  return text;
}

TimePoint at_second(int seconds) {
  return TimePoint{} + std::chrono::seconds(seconds);
}

// True if the tenant's texts have these two tokens one after the other, and one behind them.
bool knows(TenantTexts& texts, const std::string& tenant, TokenId first) {
  const MatchFinder* const found = texts.of(tenant, {});
  if (found == nullptr) return false;
  const auto matches = found->find(rising(first, 2), 1);
  return !matches.empty() && matches.front().next == first + 2;
}

TEST(TenantTextsTest, OnlyTheTenantsOwnAreFound) {
  TenantTexts texts({});
  texts.remember("alice", rising(1, 9), {});
  texts.remember("alice", rising(50, 9), {});
  texts.remember("", rising(100, 9), {});
  EXPECT_TRUE(knows(texts, "alice", 1));
  EXPECT_TRUE(knows(texts, "alice", 50));
  EXPECT_TRUE(knows(texts, "", 100));
  EXPECT_FALSE(knows(texts, "alice", 100));
  EXPECT_FALSE(knows(texts, "", 1));
  EXPECT_EQ(texts.of("bob", {}), nullptr);
  EXPECT_EQ(texts.of("alic", {}), nullptr);
}

TEST(TenantTextsTest, OfATenantTheOlderHalfGoesFirst) {
  TenantTexts texts({.of_one = 100});
  texts.remember("alice", rising(0, 60), {});
  texts.remember("alice", rising(1000, 60), {});
  EXPECT_FALSE(knows(texts, "alice", 0));
  EXPECT_TRUE(knows(texts, "alice", 1000));
  texts.remember("alice", rising(5000, 1000), {});
  EXPECT_FALSE(knows(texts, "alice", 1000));
  EXPECT_TRUE(knows(texts, "alice", 5990)) << "the end of a text that is longer than the bound";
  EXPECT_LE(texts.of("alice", {})->size(), 100u);
}

TEST(TenantTextsTest, OfAllTheTenantThatWasAwayForLongestGoesFirst) {
  TenantTexts texts({.of_one = 2 * kMinCounted, .of_all = 3 * kMinCounted});
  texts.remember("alice", rising(1, 9), {});
  texts.remember("bob", rising(1, 9), {});
  texts.remember("carol", rising(1, 9), {});
  EXPECT_TRUE(knows(texts, "alice", 1)) << "and now bob is the first to go";
  texts.remember("dave", rising(1, 9), {});
  EXPECT_EQ(texts.of("bob", {}), nullptr);
  EXPECT_TRUE(knows(texts, "carol", 1));
  texts.remember("carol", rising(100, 2 * kMinCounted), {});
  EXPECT_EQ(texts.of("alice", {}), nullptr);
  EXPECT_TRUE(knows(texts, "dave", 1));
  EXPECT_TRUE(knows(texts, "carol", 8000));
}

TEST(TenantTextsTest, WhatIsNotUsedForTooLongGoes) {
  TenantTexts texts({.kept_for = std::chrono::seconds(10)});
  EXPECT_FALSE(texts.next_expiry());
  texts.remember("alice", rising(1, 9), at_second(0));
  texts.remember("bob", rising(1, 9), at_second(1));
  EXPECT_NE(texts.of("alice", at_second(5)), nullptr);
  EXPECT_EQ(texts.next_expiry(), at_second(11));
  texts.expire(at_second(11));
  EXPECT_EQ(texts.of("bob", at_second(11)), nullptr);
  EXPECT_EQ(texts.next_expiry(), at_second(15));
  texts.expire(at_second(14));
  EXPECT_NE(texts.of("alice", at_second(14)), nullptr);
  texts.expire(at_second(24));
  EXPECT_FALSE(texts.next_expiry());
}

// --- over a scheduler ----------------------------------------------------------------------------

class TenantsLookUpTest : public BatchTest {
 protected:
  // The facts that a session shows to its edge.
  struct Shown {
    std::vector<TokenId> text = {};
    std::vector<std::uint64_t> own = {};      // by verdict
    std::vector<std::uint32_t> rows = {};     // the same
    std::vector<std::int64_t> computed = {};  // the same, nanoseconds

    bool operator==(const Shown&) const = default;
  };

  TenantsLookUpTest() {
    options_.draft_source = DraftSource::kLookup;
    options_.prefill_chunk = 64;
  }
  Open question() {
    std::vector<TokenId> prompt(70);
    std::uint32_t random = 7;
    for (TokenId& token : prompt) {
      random = random * 1664525 + 1013904223;
      token = static_cast<TokenId>(random >> 29);  // of 8
    }
    Open open = open_message(std::move(prompt), 40);
    open.accepts_server_nodes = true;
    return open;
  }
  Shown ask(StreamId stream, const StreamOwner& owner, const Open& asked) {
    open(stream, asked, owner);
    ride_to_the_end();
    Shown shown{.text = answer(stream)};
    for (const Verdict& verdict : heard<Verdict>(stream)) {
      shown.own.push_back(verdict.server_nodes);
      shown.rows.push_back(verdict.rows);
      shown.computed.push_back(verdict.timings.computed.count());
    }
    EXPECT_EQ(shown.text, expected(asked));
    return shown;
  }
  static std::size_t passes(const Shown& shown) { return shown.own.size(); }

  const StreamOwner alice_{.tenant = "alice", .group = "alice"};
  const StreamOwner bob_{.tenant = "bob", .group = "bob"};
};

TEST_F(TenantsLookUpTest, ALaterSessionOfTheTenantFindsTheAnswerAndNobodyElseDoes) {
  begin();
  const Shown first = ask(1, alice_, question());
  const Shown again = ask(2, alice_, question());
  EXPECT_EQ(again.text, first.text);
  EXPECT_LT(passes(again), passes(first) / 2);
  const Shown others = ask(3, bob_, question());
  scheduler_.emplace(device_, options_);
  events_.clear();
  EXPECT_EQ(others, ask(4, bob_, question())) << "as on a server that has never been asked";
}

TEST_F(TenantsLookUpTest, WithoutKeysAllClientsAreOneTenant) {
  begin();
  const Shown first = ask(1, {.group = "10.0.0.1"}, question());
  EXPECT_LT(passes(ask(2, {.group = "10.0.0.2"}, question())), passes(first) / 2);
}

TEST_F(TenantsLookUpTest, WithoutSharingEachSessionHasItsOwnTextOnly) {
  options_.kv.share_prefixes = false;
  begin();
  const Shown first = ask(1, alice_, question());
  EXPECT_EQ(ask(2, alice_, question()), first);
}

TEST_F(TenantsLookUpTest, WhoBrokeOffLeavesItsTextAsWell) {
  begin();
  const Shown first = ask(1, alice_, question());
  scheduler_.emplace(device_, options_);
  events_.clear();
  open(2, question(), alice_);
  for (int i = 0; i < 20; ++i) ride();
  scheduler().disconnect(2, now());
  EXPECT_LT(passes(ask(3, alice_, question())), passes(first));
}

// The first pass of a process reads a prompt, and touches all of its weights and memory.
TEST_F(TenantsLookUpTest, APromptThatWasReadSlowlyDoesNotMakeRowsOfTextDear) {
  begin();
  Open asked = question();
  for (std::size_t i = 0; i < asked.prefix.size(); ++i) {
    asked.prefix[i] = static_cast<TokenId>(i % 4 < 2 ? i % 4 : i / 4 % 8);
  }
  open(1, asked, alice_);
  while (heard<Verdict>(1).empty()) ride(std::chrono::seconds(1));
  ride_to_the_end();
  EXPECT_EQ(answer(1), expected(asked));
  const std::vector<Verdict> verdicts = heard<Verdict>(1);
  EXPECT_TRUE(std::any_of(verdicts.begin() + 1, verdicts.end(),
                          [](const Verdict& verdict) { return verdict.rows > 1; }));
}

// A turn of a chat begins with the turns before it, which their sessions have left already.
TEST_F(TenantsLookUpTest, WhatASessionBeganWithIsNotLeftTwice) {
  begin();
  Open turn = question();
  for (StreamId stream = 1; stream <= 3; ++stream) {
    const Shown shown = ask(stream, alice_, turn);
    turn.prefix.insert(turn.prefix.end(), shown.text.begin(), shown.text.end());
    turn.prefix.push_back(1);
    turn.end_position = static_cast<Position>(turn.prefix.size()) + 20;
  }
  EXPECT_LT(scheduler().stats().lookup_tokens,
            turn.prefix.size() + 3 * MatchFinder::kMaxLength + 10);
}

TEST_F(TenantsLookUpTest, WhatNoSessionUsedForTooLongIsForgotten) {
  options_.kv.kept_for = std::chrono::minutes(10);
  begin();
  const Shown first = ask(1, alice_, question());
  EXPECT_GT(scheduler().stats().lookup_tokens, 100u);
  ASSERT_TRUE(scheduler().wake_at());
  EXPECT_LE(*scheduler().wake_at(), now() + options_.kv.kept_for);
  clock_.advance(options_.kv.kept_for);
  scheduler().tick(now());
  EXPECT_EQ(scheduler().stats().lookup_tokens, 0u);
  EXPECT_THAT(ask(2, alice_, question()).own, ElementsAreArray(first.own));
}

}  // namespace
}  // namespace outrider
