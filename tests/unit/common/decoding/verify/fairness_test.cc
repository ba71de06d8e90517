// One peer takes nothing from others: turns at the device, its share of it, memory of what waits.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "common/decoding/verify/scheduling/engine.h"
#include "common/decoding/verify/scheduling/fairness.h"
#include "tests/unit/common/decoding/verify/scheduler_fixture.h"

namespace outrider {
namespace {

// --- memory of what waits -----------------------------------------------------------------------

TEST(GroupShares, TheLargestOfAGroupBeyondItsShareGivesWay) {
  GroupShares shares(10, 100);
  shares.add(1, "a", 4);
  shares.add(2, "a", 6);
  EXPECT_FALSE(shares.beyond("a"));
  shares.add(1, "a", 3);
  EXPECT_EQ(shares.beyond("a"), 1u);
  EXPECT_FALSE(shares.beyond("b"));
  shares.remove(1);
  EXPECT_FALSE(shares.beyond("a"));
}

TEST(GroupShares, BeyondTheShareOfAllTheGroupWithMostGivesWayWhoeverCameLast) {
  GroupShares shares(10, 20);
  shares.add(1, "a", 9);
  shares.add(2, "b", 10);
  shares.add(3, "c", 2);
  EXPECT_EQ(shares.beyond("c"), 2u);
  shares.clear();
  EXPECT_FALSE(shares.beyond("c"));
}

// --- shares of the device -----------------------------------------------------------------------

TEST(DeviceSharesTest, WhoHasMuchMoreThanAnEqualShareCountsLess) {
  DeviceShares shares;
  EXPECT_EQ(shares.weight("a"), 1) << "nobody has had anything";
  for (int pass = 0; pass < 100; ++pass) {
    shares.charge("greedy", 80);
    for (const char* modest : {"a", "b", "c", "d"}) shares.charge(modest, 5);
    shares.end_pass();
  }
  // 80 of 100 rows where a fifth would be equal: four shares, of which one and a half are free.
  EXPECT_NEAR(shares.weight("greedy"), std::pow(1.5 / 4, 4), 1e-9);
  EXPECT_EQ(shares.weight("a"), 1);
  EXPECT_EQ(shares.weight("new"), 1);
  EXPECT_DOUBLE_EQ(shares.free_part(), 1.5 / 5);
}

TEST(DeviceSharesTest, ALittleMoreThanEqualIsFreeAndOneAloneHasAll) {
  DeviceShares shares;
  shares.charge("a", 7);
  shares.charge("b", 5);
  EXPECT_EQ(shares.weight("a"), 1);
  DeviceShares alone;
  alone.charge("a", 100);
  EXPECT_EQ(alone.weight("a"), 1);
  EXPECT_EQ(alone.free_part(), 1);
}

TEST(DeviceSharesTest, WhatWasHadIsForgottenAndAPromptIsNoGreed) {
  DeviceShares shares;
  const auto pass = [&](std::size_t first) {
    shares.charge("a", first);
    for (const char* group : {"b", "c", "d"}) shares.charge(group, 4);
    shares.end_pass();
  };
  for (int i = 0; i < 500; ++i) pass(4);
  pass(160);
  EXPECT_EQ(shares.weight("a"), 1) << "it has read a prompt";
  for (int i = 0; i < 1000; ++i) pass(60);
  EXPECT_LT(shares.weight("a"), 0.1);
  for (int i = 0; i < 2000; ++i) pass(4);
  EXPECT_EQ(shares.weight("a"), 1);
}

class InboxTest : public testing::Test {
 protected:
  // A message of about so many MiB.
  void push(StreamId stream, const std::string& group, std::size_t mib) {
    inbox_.push_message(
        stream, group, {.body = Grow{1, 1, std::vector<GrowNode>((mib << 20) / sizeof(GrowNode))}});
  }
  bool overflowed(const std::vector<EngineInbox::Input>& taken, StreamId stream) {
    return std::ranges::any_of(taken, [&](const EngineInbox::Input& input) {
      return input.stream == stream && std::holds_alternative<EngineInbox::Overflow>(input.what);
    });
  }
  EngineInbox inbox_;
};

// A long prompt comes in hundreds of pieces while the device is busy with others.
TEST_F(InboxTest, PiecesOfAPrefixCountByTheirBytes) {
  const Prefix piece{std::vector<TokenId>(kPrefixPiece)};
  for (int i = 0; i < 1000; ++i) inbox_.push_message(1, "a", {.body = piece});
  EXPECT_FALSE(overflowed(inbox_.take(), 1));
  for (int i = 0; i < 20'000; ++i) inbox_.push_message(1, "a", {.body = piece});
  EXPECT_TRUE(overflowed(inbox_.take(), 1));
}

TEST_F(InboxTest, FloodingStreamsOfOnePeerTakeNoRoomFromAnother) {
  for (StreamId flooding = 1; flooding <= 9; ++flooding) push(flooding, "flood", 7);
  push(10, "honest", 3);
  const std::vector<EngineInbox::Input> taken = inbox_.take();
  EXPECT_FALSE(overflowed(taken, 10));
  EXPECT_TRUE(overflowed(taken, 1));
  const auto kept = std::ranges::count_if(taken, [](const EngineInbox::Input& input) {
    return input.stream < 10 && std::holds_alternative<EdgeMessage>(input.what);
  });
  EXPECT_EQ(kept, 2) << "of 7 MiB each, within 16";
}

TEST_F(InboxTest, ManyPeersThatFloodTakeNoRoomFromOneThatDoesNot) {
  for (StreamId flooding = 1; flooding <= 9; ++flooding) {
    push(flooding, "flood " + std::to_string(flooding), 7);
  }
  push(10, "honest", 3);
  const std::vector<EngineInbox::Input> taken = inbox_.take();
  EXPECT_FALSE(overflowed(taken, 10));
  push(1, "flood 1", 1);
  EXPECT_FALSE(overflowed(inbox_.take(), 1)) << "what was taken waits no more";
}

// --- turns --------------------------------------------------------------------------------------

TEST(Turns, WhoHasWaitedLongestIsNext) {
  EXPECT_FALSE(TurnOrder({}).next());
  std::vector<TurnSeeker> streams = {{.stream = 1, .group = "a", .served = 5, .wants = true},
                                     {.stream = 2, .group = "a", .served = 2, .wants = true},
                                     {.stream = 3, .group = "b", .served = 4, .wants = true}};
  EXPECT_EQ(TurnOrder(streams).next(), 3u) << "the group a was served last";
  streams[2].wants = false;
  EXPECT_EQ(TurnOrder(streams).next(), 2u);
  EXPECT_EQ(longest_round(streams), 4u) << "two groups, the larger of two";
}

TEST(Turns, EachComesOnceAndGroupsTakeTurns) {
  const std::vector<TurnSeeker> streams = {{.stream = 1, .group = "a", .served = 1, .wants = true},
                                           {.stream = 2, .group = "a", .served = 2, .wants = true},
                                           {.stream = 3, .group = "b", .served = 3, .wants = true},
                                           {.stream = 4, .group = "b", .served = 4},
                                           {.stream = 5, .group = "a", .served = 0, .wants = true}};
  TurnOrder order(streams);
  std::vector<StreamId> came;
  std::uint64_t turn = 4;
  while (const std::optional<StreamId> next = order.next()) {
    came.push_back(*next);
    order.serve(++turn);
  }
  EXPECT_THAT(came, testing::ElementsAre(5, 3, 1, 2));
}

TEST(Turns, AStreamThatJoinsTakesNoPlaceFromItsGroupNorFromOthers) {
  const std::vector<TurnSeeker> streams = {
      {.stream = 1, .group = "a", .served = 3, .wants = true},
      {.stream = 2, .group = "a", .joined = 7, .wants = true},  // of the same address
      {.stream = 3, .group = "b", .joined = 7, .wants = true},
      {.stream = 4, .group = "c", .served = 6, .wants = true}};
  EXPECT_EQ(TurnOrder(streams).next(), 1u);
}

TEST(Turns, TheMoreUrgentComeFirstWhoeverWasServedLast) {
  const std::vector<TurnSeeker> streams = {
      {.stream = 1, .group = "a", .rank = rank_of(ServiceTier::kFlex), .wants = true},
      {.stream = 2,
       .group = "b",
       .rank = rank_of(ServiceTier::kDefault),
       .served = 9,
       .wants = true},
      {.stream = 3,
       .group = "b",
       .rank = rank_of(ServiceTier::kPriority),
       .served = 8,
       .wants = true},
      {.stream = 4, .group = "c", .rank = rank_of(ServiceTier::kDefault), .wants = true}};
  TurnOrder order(streams);
  std::vector<StreamId> came;
  while (const auto next = order.next()) came.push_back(*next);
  EXPECT_THAT(came, testing::ElementsAre(3, 4, 2, 1));
}

TEST(Places, TheMoreUrgentAreOpenedFirstAndRefusedLast) {
  const auto waiting = [](StreamId stream, ServiceTier tier) {
    return PlaceSeeker{.stream = stream, .group = "a", .rank = rank_of(tier), .waits = true};
  };
  const std::vector<PlaceSeeker> streams = {waiting(1, ServiceTier::kFlex),
                                            waiting(2, ServiceTier::kDefault),
                                            waiting(3, ServiceTier::kPriority)};
  EXPECT_EQ(next_to_open(streams), 3u);
  EXPECT_EQ(last_to_open(streams), 1u);
  EXPECT_EQ(next_to_open(std::vector<PlaceSeeker>{{.stream = 1, .group = "a"}}), std::nullopt);
}

TEST(Places, OfAGroupTheOneThatIsDueFirstIsOpenedFirst) {
  const auto waiting = [](StreamId stream, std::string_view group, int due_ms) {
    return PlaceSeeker{.stream = stream,
                       .group = group,
                       .waits = true,
                       .since = TimePoint(from_ms(static_cast<double>(stream))),
                       .due = TimePoint(from_ms(due_ms))};
  };
  std::vector<PlaceSeeker> streams = {waiting(1, "a", 900), waiting(2, "a", 300),
                                      waiting(3, "b", 500)};
  EXPECT_EQ(next_to_open(streams), 2u);
  streams.push_back({.stream = 4, .group = "a"});  // has a place
  EXPECT_EQ(next_to_open(streams), 3u) << "a deadline takes no other group's turn";
  EXPECT_EQ(last_to_open(streams), 2u) << "the last that came";
}

TEST(Memory, IsGivenByTheLeastUrgentAndNotToTheLessUrgent) {
  using enum ServiceTier;
  const auto holder = [](StreamId stream, ServiceTier tier, bool wants = true,
                         bool has_had_verdict = true) {
    return MemoryHolder{.stream = stream,
                        .rank = rank_of(tier),
                        .wants = wants,
                        .has_had_verdict = has_had_verdict};
  };
  const auto gives = [](std::vector<MemoryHolder> holders, const MemoryHolder& wanting,
                        bool has_memory = true) {
    if (has_memory) holders.push_back(wanting);
    return least_urgent(holders, wanting);
  };
  EXPECT_EQ(gives({holder(1, kPriority), holder(2, kFlex), holder(4, kDefault, false)},
                  holder(3, kDefault)),
            2u);
  EXPECT_EQ(gives({holder(1, kDefault), holder(2, kDefault, false)}, holder(3, kDefault)), 2u);
  EXPECT_EQ(gives({holder(1, kDefault), holder(4, kDefault)}, holder(3, kDefault)), 4u);
  EXPECT_EQ(gives({holder(1, kDefault), holder(2, kDefault)}, holder(3, kDefault)), 3u)
      << "the youngest waits for the older ones";
  EXPECT_EQ(gives({holder(4, kDefault, true, false)}, holder(3, kDefault)), 3u)
      << "the other has had no verdict since it began to read";
  EXPECT_EQ(gives({holder(1, kPriority)}, holder(3, kDefault)), 3u);
  // Without memory.
  EXPECT_EQ(gives({holder(4, kDefault)}, holder(3, kDefault), false), std::nullopt);
  EXPECT_EQ(gives({holder(4, kDefault, false)}, holder(3, kDefault), false), 4u);
  EXPECT_EQ(gives({holder(1, kDefault)}, holder(3, kPriority), false), 1u);
  EXPECT_EQ(gives({holder(1, kPriority, false)}, holder(3, kFlex), false), 1u)
      << "it does not want the device";
}

class FairTurnsTest : public SchedulerTest {
 protected:
  FairTurnsTest() { options_.max_concurrent_sessions = 8; }
  const StreamOwner alice_{.tenant = "alice", .group = "alice"};
  const StreamOwner bob_{.tenant = "bob", .group = "bob"};
};

TEST_F(FairTurnsTest, ATenantWithManySessionsHasNoMoreOfTheDeviceThanOneWithOne) {
  for (const StreamId stream : {1, 2, 3}) open(stream, open_message({1}, 40), alice_);
  const Open asked = open_message({1}, 20);
  open(4, asked, bob_);
  EXPECT_THAT(turns(8), testing::ElementsAre(1, 4, 2, 4, 3, 4, 1, 4));
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(4), expected(asked)) << "and the bits are the same";
}

TEST_F(FairTurnsTest, ATenantBeyondItsRowsWaitsAndTheOthersGoOn) {
  TimePoint ready{};
  std::size_t rows_of_alice = 0;
  options_.on_rows = [&](const std::string& tenant, std::size_t rows, TimePoint at) {
    if (tenant != "alice") return;
    rows_of_alice += rows;
    ready = at + std::chrono::seconds(200);
  };
  options_.tenant_ready_at = [&](const std::string& tenant) {
    return tenant == "alice" ? ready : TimePoint{};
  };
  const Open asked = open_message({1, 2}, 2);
  open(1, asked, alice_);
  open(2, open_message({1}, 3), bob_);
  EXPECT_THAT(turns(4), testing::ElementsAre(1, 2, 2, 2));
  EXPECT_EQ(rows_of_alice, 2u) << "charged while the session runs";
  EXPECT_EQ(turn(), 0u);
  EXPECT_EQ(scheduler().wake_at(), ready) << "not at once, and not earlier";
  clock_.sleep_until(ready - Duration{1});
  scheduler().tick(now());
  EXPECT_FALSE(ended(1)) << "it waits for the device, however long";
  EXPECT_EQ(turn(), 0u);
  clock_.sleep_until(ready);
  EXPECT_EQ(turn(), 1u);
  EXPECT_EQ(answer(1), expected(asked));
}

TEST_F(FairTurnsTest, ATenantThatOpensAndDropsTenThousandSessionsTakesNothingFromAnother) {
  const Open asked = open_message({1}, 100);
  open(1, asked, bob_);
  for (StreamId stream = 2; stream < 10'002; ++stream) {
    open(stream, open_message({2, 3}), alice_);
    if (stream % 250 == 0) turns(2);
    scheduler().disconnect(stream, now());
  }
  EXPECT_EQ(scheduler().stats().streams_open, 1u);
  EXPECT_LE(scheduler().stats().texts_kept, options_.kv.kept);
  EXPECT_FALSE(heard<Verdict>(1).empty()) << "it came on meanwhile";
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(1), expected(asked));
}

TEST_F(FairTurnsTest, WhereAllClientsStallAtOnceTheirPlacesAreSoonFree) {
  options_.max_queued_requests = 1;
  options_.queue_timeout = 2 * options_.idle_timeout;
  for (StreamId stream = 1; stream <= 8; ++stream) {
    Open open = open_message({1});
    open.policy.pass_policy = PassPolicy::kOnRequest;
    this->open(stream, std::move(open), alice_);
  }
  turns(8);
  EXPECT_EQ(turn(), 0u) << "the device rests";
  const Open asked = open_message({1, 2});
  open(9, asked, bob_);
  EXPECT_EQ(turn(), 0u) << "all places are taken";
  clock_.advance(options_.idle_timeout);
  scheduler().tick(now());
  for (StreamId stream = 1; stream <= 8; ++stream) EXPECT_TRUE(ended(stream)) << stream;
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(9), expected(asked));
}

TEST_F(FairTurnsTest, PlacesOfLessUrgentSessionsKeepNobodyOut) {
  options_.max_concurrent_sessions = 2;
  options_.max_queued_requests = 8;
  const auto open_as = [&](StreamId stream, ServiceTier tier) {
    Open open = open_message({1}, 20);
    open.service_tier = tier;
    this->open(stream, std::move(open), alice_);
  };
  for (const StreamId stream : {1, 2, 3}) open_as(stream, ServiceTier::kDefault);
  turn();
  open_as(4, ServiceTier::kPriority);
  open_as(5, ServiceTier::kFlex);
  EXPECT_EQ(turn(), 4u) << "at once";
  EXPECT_EQ(scheduler().session(3), nullptr) << "its like have all places";
  EXPECT_EQ(scheduler().session(5), nullptr);
  for (const StreamId stream : {6, 7}) open_as(stream, ServiceTier::kPriority);
  turn();
  EXPECT_EQ(scheduler().stats().sessions_open, 4u) << "two of each tier at the most";
  while (turn() != 0) {
  }
  EXPECT_EQ(scheduler().stats().finished_length, 7u);
}

// --- streams that open nothing ------------------------------------------------------------------

class UnopenedTest : public SchedulerTest {
 protected:
  UnopenedTest() : large_(8, 1 << 20) { scheduler_.emplace(large_, options_); }
  // Gathers a prefix, and sends messages of one MiB meanwhile.
  void gather(StreamId stream, const std::string& group, int mib) {
    connect(stream, {.tenant = group, .group = group});
    Open open = open_message({1});
    open.prefix_length = 1000;
    open.prefix.clear();
    scheduler().receive(stream, {.body = std::move(open)}, now());
    for (int i = 0; i < mib; ++i) {
      scheduler().receive(
          stream, {.body = Grow{1, 1, std::vector<GrowNode>((1 << 20) / sizeof(GrowNode))}}, now());
    }
  }
  ToyModel large_;
};

TEST_F(UnopenedTest, StreamsOfOnePeerThatOpenNothingKeepNobodyElseOut) {
  for (StreamId stream = 1; stream <= 100; ++stream) connect(stream, {.group = "silent"});
  EXPECT_FALSE(ended(64));
  EXPECT_EQ(ended(65)->code(), StatusCode::kResourceExhausted);
  open(101, open_message({1}), {.group = "honest"});
  EXPECT_FALSE(ended(101));
  EXPECT_EQ(heard<Notice>(65).size(), 1u) << "with a delay";
}

TEST_F(UnopenedTest, WhatWaitsForAPrefixIsBoundedForAPeerAndInAll) {
  gather(1, "a", 9);
  EXPECT_FALSE(ended(1));
  gather(2, "a", 9);
  EXPECT_EQ(ended(1)->code(), StatusCode::kResourceExhausted) << "the largest of the two";
  EXPECT_FALSE(ended(2));
  for (StreamId stream = 3; stream <= 8; ++stream) gather(stream, std::to_string(stream), 10);
  gather(9, "honest", 1);
  EXPECT_EQ(ended(3)->code(), StatusCode::kResourceExhausted) << "69 MiB are too much of all";
  EXPECT_FALSE(ended(8)) << "it came last, and has no more than others";
  EXPECT_FALSE(ended(9));
}

// The peer's name went with the stream while it was still looked for.
TEST_F(UnopenedTest, AStreamThatGathersTooMuchByItselfIsTheOneThatGoes) {
  gather(1, "a peer whose name is too long to be kept in place", 17);
  EXPECT_EQ(ended(1)->code(), StatusCode::kResourceExhausted);
  gather(2, "a peer whose name is too long to be kept in place", 1);
  EXPECT_FALSE(ended(2));
}

}  // namespace
}  // namespace outrider
