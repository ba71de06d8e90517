// Tests which streams get memory and a place, which wait for them, and which give way.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "common/decoding/verify/scheduling/sessions.h"
#include "tests/unit/common/decoding/verify/sessions_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

// Not to come back in a while, for ever.
TEST_F(KvMemoryTest, AnAnswerThatNeverFitsIsRefusedWithItsSize) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.kv.max_bytes = 5 * 64 * 1024;
  options_.kv.tenant_bytes = [](const std::string& tenant) {
    return tenant == "bob" ? kOneSession : 0;
  };
  scheduler_.emplace(model, options_);
  open(1, open_message({2}, 100), kAlice);
  open(2, open_message(long_text(300), 100), kAlice);
  open(3, open_message(long_text(100), 100), kBob);
  for (const auto& [stream, size, room] :
       {std::tuple(2, "384", "320"), std::tuple(3, "192", "128")}) {
    ASSERT_TRUE(ended(static_cast<StreamId>(stream))) << stream;
    const Status status = *ended(static_cast<StreamId>(stream));
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(),
                testing::AllOf(HasSubstr(size), HasSubstr(room), testing::Not(HasSubstr("retry"))));
    EXPECT_THAT(heard<Notice>(static_cast<StreamId>(stream)), IsEmpty());
  }
  EXPECT_EQ(scheduler().stats().sessions_refused, 2u);
  finish_all();
  EXPECT_EQ(scheduler().stats().finished_length, 1u) << "others are not concerned";
}

// The last page of a text that an earlier session left is shared and not full, and there is no page
// for a copy of it.
TEST_F(KvMemoryTest, AnAnswerFollowsAnotherOfItsTextInMemoryForOne) {
  ToyModel model(8, 4096);
  model.set_kv_bytes_per_position(1024);
  options_.kv.max_bytes = kOneSession;
  options_.kv.kept = 1;
  scheduler_.emplace(model, options_);
  for (const StreamId stream : {1, 2, 3}) {
    open(stream, open_message(long_text(70), 20));
    finish_all();
    EXPECT_EQ(scheduler().stats().finished_length, stream);
  }
}

// The system gives it none.
class ModelWithoutMemory final : public Model {
 public:
  explicit ModelWithoutMemory(Model& model) : model_(model) {}
  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t /*count*/) override {
    return resource_exhausted("there is no memory");
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    return model_.forward(rows, out);
  }

 private:
  Model& model_;
};

TEST_F(KvMemoryTest, WhereThereIsNoneAtAllNobodyIsToldToComeBack) {
  ModelWithoutMemory model(model_);
  scheduler_.emplace(model, options_);
  open(1, open_message({1}, 100));
  ASSERT_TRUE(ended(1));
  EXPECT_EQ(ended(1)->message(), "there is no memory");
  EXPECT_THAT(heard<Notice>(1), IsEmpty());
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

TEST_F(KvMemoryTest, ASessionThatOutgrowsTheBoundIsToldItsSizeAndTheOthersFinish) {
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
  EXPECT_THAT(ended(1)->message(), HasSubstr("512 tokens")) << "one page more than the 448 of all";
  EXPECT_THAT(heard<Notice>(1), IsEmpty()) << "it would outgrow it again";
}

// Two texts that do not fit together: one gives up its memory, waits, and reads its text again.
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
  EXPECT_EQ(stats.prompt_rows, 641 + 3u);
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
  for (const std::uint32_t places : {1u, 2u, 3u}) {
    options_.max_concurrent_sessions = places;
    options_.max_queued_requests = 8;
    scheduler_.emplace(model_, options_);
    const StreamId base = 100 * places;
    StreamId next = base;
    for (std::uint32_t i = 0; i < places; ++i) open(++next, open_message({1}, 20), kAlice);
    const StreamId waiting = next + 1;  // of Alice, before Bob's and Carol's
    open(++next, open_message({1}, 2), kAlice);
    open(++next, open_message({1}, 2), kAlice);
    const StreamId bob = next + 1, carol = next + 2;
    open(++next, open_message({1}, 2), kBob);
    open(++next, open_message({1}, 2), {.tenant = "carol", .group = "carol"});
    while (turn() != 0) {
      EXPECT_TRUE(waits(waiting) || !(waits(bob) || waits(carol))) << places << " places";
    }
    EXPECT_FALSE(waits(bob) || waits(carol) || waits(waiting)) << places << " places";
  }
}

// With one place nobody has more sessions than others, so that the last place decides.
TEST_F(QueueTest, OnePlaceGoesRoundAgainAndAgain) {
  options_.max_queued_requests = 8;
  open(1, open_message({1}, 2), kAlice);
  for (const StreamId stream : {2, 3, 4}) open(stream, open_message({1}, 2), kAlice);
  for (const StreamId stream : {5, 6}) open(stream, open_message({1}, 2), kBob);
  std::vector<StreamId> order;
  while (turn() != 0) {
    for (const StreamId stream : {1, 2, 3, 4, 5, 6}) {
      if (!waits(stream) && !std::ranges::count(order, stream)) order.push_back(stream);
    }
  }
  EXPECT_THAT(order, testing::ElementsAre(1, 5, 2, 6, 3, 4));
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

}  // namespace
}  // namespace outrider
