// Tests which streams are admitted, whose session a stream continues, and how one ends.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/sessions.h"

#include <gmock/gmock.h>

#include "common/decoding/protocol/messages.h"
#include "tests/unit/common/decoding/verify/sessions_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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
