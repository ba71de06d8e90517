// Who is admitted, whose session it is, and what ends it. SPDX-License-Identifier: Apache-2.0
#include "common/verify/sessions.h"

#include <gmock/gmock.h>

#include "common/protocol/messages.h"
#include "tests/unit/common/verify/scheduler_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kKey(32, 'a');
const StreamOwner kAlice{"alice", "alice"};
const StreamOwner kBob{"bob", "bob"};

class SessionsTest : public SchedulerTest {
 protected:
  void send(StreamId stream, EdgeMessage::Body body, Position acked = 0) {
    scheduler().receive(stream, {acked, 0, std::move(body)}, now());
  }
  static std::vector<TokenId> long_text(std::size_t length) {
    std::vector<TokenId> text;
    for (std::size_t i = 0; i < length; ++i) text.push_back(static_cast<TokenId>(i % 7));
    return text;
  }
  static Open without_prefix(Open open) {
    open.prefix_length = static_cast<Position>(open.prefix.size());
    open.prefix.clear();
    return open;
  }
  void finish_all() {
    while (turn() != 0) {
    }
  }
};

// --- keys of sessions ---------------------------------------------------------------------------

TEST_F(SessionsTest, AKeyFindsTheSessionWhoseOpenedWasLost) {
  options_.max_concurrent_sessions = 1;
  Open asked = open_message({1, 2, 3});
  asked.session_key = kKey;
  open(1, asked);  // the edge never hears of it
  open(2, asked);
  EXPECT_EQ(ended(1)->code(), StatusCode::kCancelled);
  EXPECT_FALSE(ended(2)) << "the lost one no longer holds the place";
  finish_all();
  EXPECT_EQ(answer(2), expected(asked));
}

TEST_F(SessionsTest, AKeyTakesOverWhatItsBrokenStreamHadComputed) {
  Open asked = open_message({1, 2, 3, 4});
  asked.session_key = kKey;
  open(1, asked);
  turns(2);
  scheduler().disconnect(1);
  open(2, asked);
  EXPECT_EQ(scheduler().session(2)->usage().cached_tokens, 3u);
}

TEST_F(SessionsTest, AnotherTenantsKeyIsLikeOneNeverSeen) {
  Open asked = open_message({1, 2, 3});
  asked.session_key = kKey;
  open(1, asked, kAlice);
  turns(2);
  Open stolen = asked;
  stolen.replaced_session = "session-1";
  open(2, stolen, kBob);
  EXPECT_FALSE(ended(1)) << "Alice's session goes on";
  EXPECT_EQ(scheduler().session(2)->usage().cached_tokens, 0u);
  turns(2);
  scheduler().disconnect(1);
  scheduler().disconnect(2);
  open(3, asked, kBob);
  EXPECT_EQ(scheduler().session(3)->usage().cached_tokens, 2u) << "Bob's own";
  open(4, asked, kAlice);
  EXPECT_EQ(scheduler().session(4)->usage().cached_tokens, 2u) << "Alice's own";
}

TEST_F(SessionsTest, AKeyOfAnotherFormIsRefused) {
  for (const std::string& key : {std::string(31, 'a'), std::string(32, 'A'), std::string("x")}) {
    Open asked = open_message({1});
    asked.session_key = key;
    open(1, asked);
    EXPECT_EQ(ended(1)->code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(ended(1)->message(), HasSubstr("session_key"));
    events_.clear();
  }
}

// --- prefixes that are not in the Open ----------------------------------------------------------

TEST_F(SessionsTest, APrefixInPiecesGivesTheSameTextAndMessagesThatCameEarlyCount) {
  const std::vector<TokenId> prompt = long_text(250);
  Open asked = open_message(prompt, 4);
  asked.policy.pass_policy = PassPolicy::kOnRequest;
  options_.prefill_chunk = 100;
  open(1, without_prefix(asked));
  send(1, Grow{1, 250, {{expected(asked)[0], 0, 255}}});
  EXPECT_THAT(heard<Opened>(1), IsEmpty());
  send(1, Prefix{prompt});
  EXPECT_THAT(heard<Opened>(1), SizeIs(1));
  finish_all();
  EXPECT_THAT(heard<Verdict>(1), SizeIs(1));
  std::vector<TokenId> first_two = expected(asked);
  first_two.resize(2);
  EXPECT_EQ(answer(1), first_two);
}

// Ten seconds from the headers were too short for 300 KB at 200 kbit/s, however well it went.
TEST_F(SessionsTest, TheDeadlineOfAPrefixRunsFromItsLastPiece) {
  ToyModel model(8, 4096);
  scheduler_.emplace(model, options_);
  const std::vector<TokenId> prompt = long_text(1024);
  open(1, without_prefix(open_message(prompt)));
  for (std::size_t i = 0; i < 3; ++i) {
    clock_.advance(options_.open_timeout - from_ms(1));
    scheduler().tick(now());
    const auto at = prompt.begin() + static_cast<std::ptrdiff_t>(i * 256);
    send(1, Prefix{{at, at + 256}});
  }
  EXPECT_FALSE(ended(1)) << "though thirty seconds have passed";
  EXPECT_EQ(*scheduler().wake_at(), now() + options_.open_timeout);
  clock_.advance(options_.open_timeout);
  scheduler().tick(now());
  EXPECT_EQ(ended(1)->code(), StatusCode::kDeadlineExceeded);
}

TEST_F(SessionsTest, CrumbsAndFloodsOfAPrefixAreRefused) {
  open(1, without_prefix(open_message(long_text(250))));
  send(1, Prefix{long_text(3)});
  EXPECT_THAT(ended(1)->message(), HasSubstr("at least 256"));
  open(2, without_prefix(open_message(long_text(250))));
  send(2, Prefix{long_text(251)});
  EXPECT_THAT(ended(2)->message(), HasSubstr("at most the 250"));
  open(3, without_prefix(open_message(long_text(250))));
  for (int i = 0; i < 100; ++i) send(3, AckOnly{});
  EXPECT_EQ(ended(3)->code(), StatusCode::kResourceExhausted);
  open(4, without_prefix(open_message(long_text(100'000))));
  EXPECT_EQ(ended(4)->code(), StatusCode::kInvalidArgument) << "more than the context";
}

TEST_F(SessionsTest, AHashStandsForAPrefixThatTheReplacedSessionHas) {
  Open asked = open_message(long_text(200), 8);
  asked.session_key = kKey;
  open(1, asked);
  for (int i = 0; i < 102; ++i) turn();
  Open again = asked;
  const std::vector<TokenId> had = answer(1);
  ASSERT_GE(had.size(), 2u);
  again.prefix.push_back(had[0]);  // what the edge has: less than the server
  Open named = without_prefix(again);
  named.prefix_hash = prefix_hash(again.prefix);
  scheduler().disconnect(1);
  open(2, named);
  EXPECT_THAT(heard<Opened>(2), SizeIs(1));
  EXPECT_EQ(scheduler().session(2)->usage().cached_tokens, 200u);
  finish_all();
  EXPECT_EQ(answer(2), expected(again));
}

TEST_F(SessionsTest, AHashThatNothingHereHasIsAskedForAndChecked) {
  const Open asked = open_message(long_text(200), 4);
  Open named = without_prefix(asked);
  named.session_key = kKey;
  named.prefix_hash = prefix_hash(asked.prefix);
  open(1, named);
  ASSERT_THAT(heard<Notice>(1), SizeIs(1));
  EXPECT_EQ(heard<Notice>(1)[0].kind, Notice::Kind::kSendPrefix);
  send(1, Prefix{asked.prefix});
  finish_all();
  EXPECT_EQ(answer(1), expected(asked));
  named.session_key = std::string(32, 'b');
  open(2, named);
  std::vector<TokenId> wrong = asked.prefix;
  wrong.back() = 5;
  send(2, Prefix{wrong});
  EXPECT_EQ(ended(2)->code(), StatusCode::kInvalidArgument);
}

// --- who keeps a session ------------------------------------------------------------------------

// One empty message every 119 seconds used to hold a place for ever.
TEST_F(SessionsTest, NoiseDoesNotKeepASession) {
  Open asked = open_message({1});
  asked.policy.pass_policy = PassPolicy::kOnRequest;
  open(1, asked);
  turn();
  const TimePoint due = now() + options_.idle_timeout;
  for (int i = 0; i < 3; ++i) {
    clock_.advance(options_.idle_timeout / 4);
    send(1, AckOnly{}, 1);
    send(1, Policy{asked.policy});
    send(1, Grow{static_cast<NodeId>(i + 1), 0, {{7, 0, 255}}});  // dead, or committed
    scheduler().tick(now());
    EXPECT_FALSE(ended(1));
  }
  clock_.sleep_until(due);
  scheduler().tick(now());
  EXPECT_EQ(ended(1)->code(), StatusCode::kDeadlineExceeded);
}

TEST_F(SessionsTest, AcknowledgedTokensKeepASession) {
  options_.run_ahead = 2;
  open(1, open_message({1}));
  finish_all();  // paused: two tokens ahead
  clock_.advance(options_.idle_timeout - from_ms(10));
  send(1, AckOnly{}, 2);
  clock_.advance(from_ms(20));
  scheduler().tick(now());
  EXPECT_FALSE(ended(1));
}

// --- memory -------------------------------------------------------------------------------------

class KvMemoryTest : public SessionsTest {
 protected:
  KvMemoryTest() {
    model_.set_kv_bytes_per_position(1024);
    options_.max_concurrent_sessions = 8;
    options_.max_rows = 4;
  }
  // A prompt of one token and an answer of 100 take two pages of 64 slots.
  static constexpr std::int64_t kOneSession = 2 * 64 * 1024;
};

TEST_F(KvMemoryTest, SessionsBeyondTheBoundAreToldToComeBack) {
  options_.kv.max_bytes = 2 * kOneSession;
  for (const StreamId stream : {1, 2, 3}) open(stream, open_message({1}, 100));
  EXPECT_FALSE(ended(2));
  EXPECT_EQ(ended(3)->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(ended(3)->message(), testing::Not(HasSubstr("MiB"))) << "not the edge's to know";
  ASSERT_THAT(heard<Notice>(3), SizeIs(1));
  EXPECT_EQ(heard<Notice>(3)[0].kind, Notice::Kind::kOverloaded);
  EXPECT_EQ(scheduler().stats().kv_bytes, 0) << "promised, not taken";
  finish_all();
  EXPECT_EQ(scheduler().stats().finished_length, 2u);
  open(4, open_message({1}, 100));  // what is kept gives way
  finish_all();
  EXPECT_EQ(scheduler().stats().finished_length, 3u);
  EXPECT_LE(scheduler().stats().kv_bytes, 2 * kOneSession);
}

TEST_F(KvMemoryTest, ATenantBeyondItsShareIsToldWhichAndOthersAreNotConcerned) {
  options_.kv.tenant_bytes = [](const std::string& tenant) {
    return tenant == "alice" ? 2 * kOneSession : 0;
  };
  for (const StreamId stream : {1, 2, 3}) open(stream, open_message({1}, 100), kAlice);
  for (const StreamId stream : {4, 5, 6}) open(stream, open_message({1}, 100), kBob);
  EXPECT_FALSE(ended(2));
  EXPECT_EQ(ended(3)->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(ended(3)->message(), HasSubstr("kv-memory"));
  ASSERT_THAT(heard<Notice>(3), SizeIs(1));
  EXPECT_GT(heard<Notice>(3)[0].retry_after, Duration{0});
  EXPECT_FALSE(ended(6));
  finish_all();
  open(7, open_message({1}, 100), kAlice);  // what is kept of its own gives way
  EXPECT_FALSE(ended(7));
  EXPECT_EQ(scheduler().stats().sessions_refused, 1u);
}

TEST_F(KvMemoryTest, ASessionThatOutgrowsItsTenantsShareIsToldWhich) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.kv.tenant_bytes = [](const std::string&) { return 6 * 64 * 1024; };
  scheduler_.emplace(model, options_);
  open(1, open_message({1}, 2000), kAlice);
  while (turn() != 0) {
    if (const VerifySession* session = scheduler().session(1)) {
      send(1, AckOnly{}, session->tree().end());
    }
  }
  ASSERT_TRUE(ended(1));
  EXPECT_EQ(ended(1)->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(ended(1)->message(), HasSubstr("kv-memory"));
  EXPECT_EQ(scheduler().stats().kv_bytes, 6 * 64 * 1024) << "kept, until it has to give way";
  open(2, open_message({2}, 100), kAlice);
  EXPECT_FALSE(ended(2));
}

// A session is charged for what it uses, not for the context that its cache could hold.
TEST_F(KvMemoryTest, ManyShortSessionsFitWhereOneWholeContextWouldNot) {
  options_.kv.max_bytes = 4 * kOneSession;  // the context holds 256 tokens: five pages
  for (const StreamId stream : {1, 2, 3, 4}) open(stream, open_message({1}, 100));
  finish_all();
  EXPECT_EQ(scheduler().stats().finished_length, 4u);
}

TEST_F(KvMemoryTest, ASessionThatOutgrowsTheBoundEndsWithADelayAndTheOthersFinish) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.kv.max_bytes = 5 * 64 * 1024 + kOneSession;
  scheduler_.emplace(model, options_);
  open(1, open_message({1}, 2000));
  open(2, open_message({2}, 100));
  while (turn() != 0 && scheduler().stats().kv_bytes <= options_.kv.max_bytes) {
    for (const StreamId stream : {1, 2}) {
      if (const VerifySession* session = scheduler().session(stream)) {
        send(stream, AckOnly{}, session->tree().end());
      }
    }
  }
  EXPECT_LE(scheduler().stats().kv_bytes, options_.kv.max_bytes);
  EXPECT_EQ(heard<Usage>(2).size(), 1u);
  ASSERT_TRUE(ended(1));
  EXPECT_EQ(ended(1)->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(heard<Notice>(1), SizeIs(1));
}

// Two texts that do not fit together: each gives its memory to the other, and both come on.
TEST_F(KvMemoryTest, WhoGaveUpItsMemoryGoesOnFromItsText) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.kv.max_bytes = 14 * 64 * 1024;
  options_.prefill_chunk = 64;
  scheduler_.emplace(model, options_);
  const std::vector<Open> asked = {open_message({1, 2, 3}, 700), open_message({2, 3, 4}, 700)};
  for (const StreamId stream : {1, 2}) open(stream, asked[stream - 1]);
  while (turn() != 0) {
    clock_.advance(from_ms(400));
    scheduler().tick(now());
    for (const StreamId stream : {1, 2}) {
      if (const VerifySession* session = scheduler().session(stream)) {
        send(stream, AckOnly{}, session->tree().end());
      }
    }
  }
  for (const StreamId stream : {1, 2}) {
    std::vector<TokenId> text =
        model.decode(asked[stream - 1].prefix, asked[stream - 1].end_position, {}, 0);
    text.erase(text.begin(), text.begin() + 3);
    EXPECT_EQ(answer(stream), text) << stream;
    EXPECT_TRUE(ended(stream)->ok());
  }
  EXPECT_GT(scheduler().stats().preemptions, 0u);
  EXPECT_LE(scheduler().stats().kv_bytes, options_.kv.max_bytes);
}

TEST_F(KvMemoryTest, ThoseWhoComeTogetherReadTheSameBeginningOnce) {
  ToyModel model(8, 4096);
  options_.prefill_chunk = 256;
  options_.max_batched_rows = 1000;
  scheduler_.emplace(model, options_);
  std::vector<Open> asked;
  for (const TokenId last : {1, 2, 3, 4}) {
    std::vector<TokenId> prompt = long_text(640);
    prompt.push_back(last);
    asked.push_back(open_message(prompt));
    open(static_cast<StreamId>(last), asked.back());
  }
  finish_all();
  for (const StreamId stream : {1, 2, 3, 4}) {
    std::vector<TokenId> text =
        model.decode(asked[stream - 1].prefix, asked[stream - 1].end_position, {}, 0);
    text.erase(text.begin(), text.begin() + 641);
    EXPECT_EQ(answer(stream), text) << stream;
  }
  const SchedulerStats stats = scheduler().stats();
  EXPECT_EQ(stats.cached_tokens, 3u * 640);
  EXPECT_EQ(stats.rows, 641 + 3 + 4 * 5u) << "the beginning, three last tokens, the answers";
}

TEST_F(KvMemoryTest, TwoHundredShortSessionsFitInThePagesOfTwentyFullOnes) {
  ToyModel model(8, 32768);
  model.set_kv_bytes_per_position(1024);
  options_.kv.max_bytes = 20 * std::int64_t{32768} * 1024;
  options_.max_concurrent_sessions = 200;
  options_.max_batched_rows = 1000;
  scheduler_.emplace(model, options_);
  for (StreamId stream = 1; stream <= 200; ++stream) {
    std::vector<TokenId> prompt = long_text(60);
    for (std::size_t at = 0; at < 8; ++at) prompt[at] = static_cast<TokenId>(stream >> at & 1);
    open(stream, open_message(prompt, 30));
  }
  finish_all();
  const SchedulerStats stats = scheduler().stats();
  EXPECT_EQ(stats.finished_length, 200u);
  EXPECT_EQ(stats.sessions_refused + stats.preemptions, 0u);
}

TEST_F(KvMemoryTest, ABeginningThatFiftySessionsShareIsHeldOnce) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.max_concurrent_sessions = 50;
  options_.max_batched_rows = 1000;
  options_.prefill_chunk = 256;
  options_.kv.kept = 0;
  scheduler_.emplace(model, options_);
  for (StreamId stream = 1; stream <= 50; ++stream) {
    std::vector<TokenId> prompt = long_text(2000);
    for (std::size_t at = 0; at < 6; ++at) prompt.push_back(static_cast<TokenId>(stream >> at & 1));
    open(stream, open_message(prompt, 30));
  }
  std::int64_t most = 0;
  while (turn() != 0) most = std::max(most, scheduler().stats().kv_bytes);
  EXPECT_EQ(scheduler().stats().finished_length, 50u);
  // 31 full pages, and for each session the page where it goes on, and perhaps the next.
  EXPECT_LE(most, (31 + 2 * 50) * 64 * 1024);
}

// --- the queue ----------------------------------------------------------------------------------

class QueueTest : public SessionsTest {
 protected:
  QueueTest() {
    options_.max_concurrent_sessions = 1;
    options_.max_queued_requests = 3;
  }
  bool waits(StreamId stream) { return heard<Opened>(stream).empty() && !ended(stream); }
};

TEST_F(QueueTest, TheNextWaitsUntilAPlaceIsFree) {
  const Open first = open_message({1}), second = open_message({2}, 3);
  open(1, first);
  open(2, second);
  send(2, AckOnly{});
  EXPECT_TRUE(waits(2));
  while (!ended(1)) turn();
  EXPECT_LE(scheduler().wake_at(), now()) << "nothing else comes that would open it";
  finish_all();
  EXPECT_EQ(answer(1), expected(first));
  EXPECT_EQ(answer(2), expected(second));
  EXPECT_EQ(scheduler().stats().sessions_refused, 0u);
}

TEST_F(QueueTest, PlacesGoRoundAmongGroups) {
  options_.max_concurrent_sessions = 2;
  open(1, open_message({1}, 2), kAlice);
  open(2, open_message({1}, 20), kAlice);
  open(3, open_message({1}), kAlice);
  open(4, open_message({1}), kBob);
  while (!ended(1)) turn();
  turn();
  EXPECT_FALSE(waits(4)) << "Bob has none; Alice has one";
  EXPECT_TRUE(waits(3));
}

TEST_F(QueueTest, BeyondTheQueueTheLastOfTheGroupThatWaitsMostIsRefused) {
  for (const StreamId stream : {1, 2, 3, 4}) open(stream, open_message({1}), kAlice);
  open(5, open_message({1}), kBob);
  EXPECT_EQ(ended(4)->code(), StatusCode::kResourceExhausted);
  ASSERT_THAT(heard<Notice>(4), SizeIs(1));
  EXPECT_EQ(heard<Notice>(4)[0].kind, Notice::Kind::kOverloaded);
  for (const StreamId stream : {2, 3, 5}) EXPECT_TRUE(waits(stream)) << stream;
}

TEST_F(QueueTest, WhoWaitsForTooLongIsToldToComeBack) {
  open(1, open_message({1}));
  open(2, open_message({1}));
  EXPECT_LE(scheduler().wake_at(), now() + options_.queue_timeout);
  clock_.advance(options_.queue_timeout);
  scheduler().tick(now());
  EXPECT_EQ(ended(2)->code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(ended(2)->message(), HasSubstr("30 s"));
  EXPECT_FALSE(ended(1));
}

TEST_F(QueueTest, ASuccessorGoesBeforeThoseThatNeverHadAPlace) {
  Open asked = open_message({1});
  asked.session_key = kKey;
  open(1, asked);
  open(2, open_message({2}));
  open(3, asked);
  EXPECT_EQ(ended(1)->code(), StatusCode::kCancelled);
  EXPECT_FALSE(waits(3));
  EXPECT_TRUE(waits(2));
}

TEST_F(QueueTest, WhoLeavesTheQueueIsNotOpened) {
  open(1, open_message({1}));
  open(2, open_message({2}));
  open(3, open_message({3}));
  scheduler().disconnect(2);
  finish_all();
  EXPECT_THAT(heard<Opened>(2), IsEmpty());
  EXPECT_TRUE(ended(3)->ok());
}

TEST_F(QueueTest, AShutdownWaitsForNobodyInTheQueue) {
  open(1, open_message({1}));
  open(2, open_message({2}));
  scheduler().drain();
  turn();
  EXPECT_EQ(ended(2)->code(), StatusCode::kUnavailable);
  EXPECT_FALSE(ended(1));
}

TEST_F(QueueTest, WhoseOpenIsWrongDoesNotWait) {
  open(1, open_message({1}));
  open(2, open_message({99}));
  EXPECT_EQ(ended(2)->code(), StatusCode::kInvalidArgument);
}

TEST_F(QueueTest, WhereMemoryIsShortRequestsWaitToo) {
  model_.set_kv_bytes_per_position(1024);
  options_.max_concurrent_sessions = 8;
  options_.kv.max_bytes = 4 * 64 * 1024;
  for (const StreamId stream : {1, 2, 3}) open(stream, open_message({1}, 100));
  EXPECT_TRUE(waits(3));
  finish_all();
  EXPECT_EQ(scheduler().stats().finished_length, 3u);
}

// --- the books ----------------------------------------------------------------------------------

TEST_F(SessionsTest, EachSessionIsBookedWithTheEnergyOfItsOwnPasses) {
  double used = 100;
  options_.joules = [&] { return std::optional(used += 1.5); };  // a pass takes 1.5 of it
  options_.on_session_end = [](const SessionRecord&) {};
  open(1, open_message({1}, 4), kAlice);
  open(2, open_message({1}, 2), kBob);
  finish_all();
  const std::vector<SessionRecord> records = scheduler().take_records();
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].tenant, "bob");
  EXPECT_EQ(records[0].joules, 1.5 * 2);
  EXPECT_EQ(records[1].joules, 1.5 * 4);
}

TEST_F(SessionsTest, WhereADeviceStopsTellingTheEnergyIsNotKnown) {
  int asked = 0;
  options_.joules = [&] { return ++asked == 4 ? std::nullopt : std::optional(1.0 * asked); };
  options_.on_session_end = [](const SessionRecord&) {};
  open(1, open_message({1}, 4));
  finish_all();
  EXPECT_EQ(scheduler().take_records().at(0).joules, std::nullopt);
}

// --- what is said aloud -------------------------------------------------------------------------

TEST_F(SessionsTest, TheLimitsAreInOpenedAndTheOnOfPassesIsKeptUpToDate) {
  options_.pass_limit = std::chrono::seconds(5);
  open(1, open_message({1}));
  const Limits limits = heard<Opened>(1).at(0).limits;
  EXPECT_EQ(limits.max_patience, kMaxPatience);
  EXPECT_EQ(limits.open_timeout, options_.open_timeout);
  EXPECT_EQ(limits.idle_timeout, options_.idle_timeout);
  EXPECT_EQ(limits.pass_limit, options_.pass_limit);
  ASSERT_TRUE(scheduler().start(now()));
  clock_.advance(std::chrono::seconds(4));  // a slow one
  scheduler().compute();
  scheduler().finish(now());
  EXPECT_EQ(heard<Verdict>(1).at(0).pass_limit, std::chrono::seconds(9));
  turn();
  EXPECT_EQ(heard<Verdict>(1).at(1).pass_limit, Duration{0}) << "as before";
}

TEST_F(SessionsTest, WhoMayNotTimeOthersIsToldALoad) {
  StreamOwner guest = kAlice;
  guest.coarse_times = true;
  open(1, open_message({1}), guest);
  open(2, open_message({1}), kBob);
  for (int turn = 0; turn < 6; ++turn) {
    ASSERT_TRUE(scheduler().start(now()));
    scheduler().compute();
    clock_.advance(std::chrono::milliseconds(8));
    scheduler().finish(now());
  }
  const std::vector<Verdict> coarse = heard<Verdict>(1);
  const std::vector<Verdict> exact = heard<Verdict>(2);
  ASSERT_GE(coarse.size(), 2u);
  ASSERT_GE(exact.size(), 2u);
  EXPECT_EQ(coarse[0].timings.load, Load::kFree);
  EXPECT_EQ(coarse[1].timings.load, Load::kBusy) << "as long as its own pass";
  EXPECT_EQ(coarse[1].timings.queued, Duration{0});
  EXPECT_EQ(exact[1].timings.load, Load::kUntold);
  EXPECT_EQ(exact[1].timings.queued, std::chrono::milliseconds(8));
}

}  // namespace
}  // namespace outrider
