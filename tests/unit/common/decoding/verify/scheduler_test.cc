// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/unit/common/decoding/verify/scheduler_fixture.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(SchedulerTest, AnEagerStreamWithoutNodesIsCloudDecoding) {
  const Open asked = open_message({1, 2, 3});
  open(1, asked);
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(1), expected(asked));
  ASSERT_THAT(heard<Usage>(1), testing::SizeIs(1));
  EXPECT_EQ(heard<Usage>(1)[0].reason, FinishReason::kLength);
  EXPECT_EQ(heard<Usage>(1)[0].passes, 6u);
  EXPECT_TRUE(ended(1)->ok());
  EXPECT_FALSE(scheduler().wake_at());
}

TEST_F(SchedulerTest, TurnsGoRoundAndAPrefillTakesOneChunkEach) {
  open(1, open_message({1, 2, 3, 4, 5, 6}));
  open(2, open_message({1}));
  EXPECT_THAT(turns(7), ElementsAre(1, 2, 1, 2, 1, 2, 1));
  EXPECT_EQ(heard<Progress>(1).size(), 2u);
  EXPECT_EQ(heard<Verdict>(2).size(), 3u);
}

TEST_F(SchedulerTest, LaterStreamsAreToldWhatPassesTakeHere) {
  open(1, open_message({1, 2, 3}));
  while (turn() != 0) {
  }
  open(2, open_message({1, 2}));
  turn();
  EXPECT_TRUE(heard<Opened>(1)[0].pass_costs.points.empty()) << "nothing was known yet";
  ASSERT_EQ(heard<Opened>(2).size(), 1u);
  const PassCosts costs = heard<Opened>(2)[0].pass_costs;
  ASSERT_EQ(costs.points.size(), 1u) << "prefills are left out";
  EXPECT_EQ(costs.points[0].rows, 1u);
  EXPECT_GT(costs.points[0].time, Duration{0});
}

TEST_F(SchedulerTest, StartedLeavesBeforeTheDeviceWorks) {
  open(1, open_message({1}));
  ASSERT_TRUE(scheduler().start(now()));
  EXPECT_THAT(heard<Started>(1), testing::SizeIs(1));
  scheduler().compute();
  EXPECT_THAT(heard<Verdict>(1), IsEmpty());
  scheduler().finish(now());
  EXPECT_THAT(heard<Verdict>(1), testing::SizeIs(1));
}

TEST_F(SchedulerTest, RefusesTheSessionThatIsOneTooManyAndSaysWhenToComeBack) {
  open(1, open_message({1}));
  open(2, open_message({2}));
  open(3, open_message({3}));
  ASSERT_THAT(heard<Notice>(3), testing::SizeIs(1));
  EXPECT_EQ(heard<Notice>(3)[0].kind, Notice::Kind::kOverloaded);
  // Those who are refused together come back apart.
  EXPECT_GE(heard<Notice>(3)[0].retry_after, options_.retry_after);
  EXPECT_LE(heard<Notice>(3)[0].retry_after, options_.retry_after * 3 / 2);
  EXPECT_EQ(ended(3)->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(ended(3)->message(), HasSubstr("retry in 2 s"));
  EXPECT_EQ(scheduler().stats().sessions_refused, 1u);
  scheduler().disconnect(1);
  open(4, open_message({3}));
  EXPECT_FALSE(ended(4));
}

TEST_F(SchedulerTest, BoundsStreamsThatOpenNothing) {
  for (StreamId stream = 1; stream <= 64; ++stream) connect(stream);
  EXPECT_FALSE(ended(64));
  connect(65);
  EXPECT_EQ(ended(65)->code(), StatusCode::kResourceExhausted);
}

TEST_F(SchedulerTest, TheFirstMessageMustBeOpen) {
  connect(1);
  scheduler().receive(1, {.body = Grow{1, 0, {}}}, now());
  EXPECT_EQ(ended(1)->code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(scheduler().stats().streams_open, 0u);
}

TEST_F(SchedulerTest, ABadMessageEndsItsStreamAndNoOther) {
  const Open asked = open_message({1});
  open(1, asked);
  open(2, open_message({2}));
  turns(2);
  scheduler().receive(2, {.acked_position = 99, .body = AckOnly{}}, now());
  EXPECT_EQ(ended(2)->code(), StatusCode::kFailedPrecondition);
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_EQ(scheduler().stats().finished_error, 1u);
}

TEST_F(SchedulerTest, AFailedPassEndsItsStreamAndNoOther) {
  open(1, open_message({1}));
  const Open asked = open_message({2});
  open(2, asked);
  model_.fail_next_passes(1);
  turn();
  EXPECT_EQ(ended(1)->code(), StatusCode::kResourceExhausted);
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(2), expected(asked));
}

TEST_F(SchedulerTest, LogitsThatNameNoTokenEndTheirStreamAndNoOther) {
  open(1, open_message({1}));
  const Open asked = open_message({2});
  open(2, asked);
  model_.spoil_next_passes(1);
  turn();
  EXPECT_EQ(ended(1)->code(), StatusCode::kDataLoss);
  EXPECT_THAT(ended(1)->message(), HasSubstr("decides position 1"));
  EXPECT_THAT(heard<Verdict>(1), IsEmpty());
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(2), expected(asked));
}

TEST_F(SchedulerTest, AReconnectTakesOverTheKvOfTheBrokenStream) {
  Open asked = open_message({1, 2, 3, 4});
  open(1, asked);
  turns(4);
  const std::vector<TokenId> first = answer(1);
  scheduler().disconnect(1);
  Open again = asked;
  again.prefix.insert(again.prefix.end(), first.begin(), first.end());
  again.replaced_session = "session-1";
  open(2, again);
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(2), expected(again));
  EXPECT_EQ(heard<Usage>(2)[0].cached_tokens, again.prefix.size() - 1);
}

TEST_F(SchedulerTest, AReconnectEndsTheOldStreamThatStillSeemsToLive) {
  open(1, open_message({1, 2, 3}));
  open(2, open_message({7}));
  turns(4);
  Open again = open_message({1, 2, 3});
  again.replaced_session = "session-1";
  open(3, again);
  EXPECT_EQ(ended(1)->code(), StatusCode::kCancelled);
  EXPECT_FALSE(ended(3)) << "it takes the place of the one it replaces";
  turn();
  turn();
  EXPECT_EQ(scheduler().session(3)->usage().cached_tokens, 2u);
}

TEST_F(SchedulerTest, ABadOpenDoesNotHarmTheSessionThatItNames) {
  open(1, open_message({1}));
  Open bad = open_message({});
  bad.replaced_session = "session-1";
  open(2, bad);
  EXPECT_TRUE(ended(2));
  EXPECT_FALSE(ended(1));
}

TEST_F(SchedulerTest, AnUnknownSessionToReplaceIsAFreshStart) {
  Open asked = open_message({1, 2});
  asked.replaced_session = "of another server";
  open(1, asked);
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(1), expected(asked));
}

TEST_F(SchedulerTest, DrainWarnsLetsFinishAndRefuses) {
  const Open asked = open_message({1});
  open(1, asked);
  scheduler().drain();
  ASSERT_THAT(heard<Notice>(1), testing::SizeIs(1));
  EXPECT_EQ(heard<Notice>(1)[0].kind, Notice::Kind::kReconnectSoon);
  open(2, open_message({2}));
  EXPECT_EQ(ended(2)->code(), StatusCode::kUnavailable);
  while (turn() != 0) {
  }
  EXPECT_EQ(answer(1), expected(asked));
  EXPECT_EQ(scheduler().stats().sessions_open, 0u);
}

TEST_F(SchedulerTest, ASilentEdgeLosesItsSession) {
  Open asked = open_message({1});
  asked.policy.pass_policy = PassPolicy::kOnRequest;
  open(1, asked);
  connect(2);  // never opens
  turn();
  const TimePoint due = now() + options_.idle_timeout;
  EXPECT_LE(*scheduler().wake_at(), due);
  clock_.sleep_until(due - Duration{1});
  scheduler().tick(now());
  EXPECT_FALSE(ended(1));
  clock_.sleep_until(due);
  scheduler().tick(now());
  EXPECT_EQ(ended(1)->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(ended(2)->code(), StatusCode::kDeadlineExceeded);
}

TEST_F(SchedulerTest, ASessionThatWaitsForTheDeviceIsNotSilent) {
  open(1, open_message({1}));
  clock_.advance(options_.idle_timeout * 2);
  scheduler().tick(now());
  EXPECT_FALSE(ended(1));
}

TEST_F(SchedulerTest, NoMessageFollowsADisconnect) {
  open(1, open_message({1}));
  collect();
  events_.clear();
  scheduler().disconnect(1);
  scheduler().receive(1, {.body = AckOnly{}}, now());
  EXPECT_EQ(turn(), 0u);
  collect();
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(SchedulerTest, CountsWhatItDid) {
  open(1, open_message({1, 2, 3}, 2));
  while (turn() != 0) {
  }
  open(2, open_message({1}));
  scheduler().receive(2, {.body = Cancel{}}, now());
  const SchedulerStats stats = scheduler().stats();
  EXPECT_EQ(stats.sessions_opened, 2u);
  EXPECT_EQ(stats.finished_length, 1u);
  EXPECT_EQ(stats.finished_cancelled, 1u);
  EXPECT_EQ(stats.prompt_tokens, 4u);
  EXPECT_EQ(stats.completion_tokens, 2u);
  EXPECT_EQ(stats.passes, 2u);
  EXPECT_EQ(stats.rows, 4u);
  EXPECT_EQ(stats.prompt_rows, 3u) << "the second was cancelled before its prompt was read";
  EXPECT_EQ(stats.compute, from_ms(6));
  EXPECT_EQ(stats.texts_kept, 2u);
}

}  // namespace
}  // namespace outrider
