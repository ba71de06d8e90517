// The verifying session alone: messages and choices in, plans and messages out.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr TokenId kStop = 99;

// A session over the prefix 1 2 3, and hands to play its edge and its device.
class SessionTest : public testing::Test {
 protected:
  SessionTest() {
    target_.model.vocab_size = 100;
    target_.model.stop_ids = {kStop};
    target_.limits.vocab_size = 100;
    target_.limits.max_positions = 64;
    open_.prefix = {1, 2, 3};
    open_.end_position = 40;
  }

  void begin(VerifySession::Setup setup = {"id", 0, 16}) {
    session_.emplace(open_, target_, std::move(setup), now());
    opened_ = take<Opened>();
  }
  // begin() and pass 0, which decides `token`.
  void begin_after_prefill(TokenId token) {
    begin();
    run({token});
    drop_messages();
  }

  TimePoint now() const { return clock_.now(); }
  void post(EdgeMessage message) { status_ = session_->on_message(message, now()); }
  void grow(std::vector<GrowNode> nodes) {
    Grow grow{next_id_, session_->tree().end(), std::move(nodes)};
    next_id_ += static_cast<NodeId>(grow.nodes.size());
    post({.acked_position = session_->tree().end(), .body = std::move(grow)});
  }
  void acknowledge() { post({.acked_position = session_->tree().end(), .body = AckOnly{}}); }
  bool runnable() const {
    const auto at = session_->runnable_at();
    return at && *at <= now();
  }

  // One pass in which the target's choices are `choices`, by position from `end`.
  PassPlan run(std::vector<TokenId> choices, Duration computed = milliseconds(5)) {
    const Position end = session_->tree().end();
    PassPlan plan = session_->start(now());
    started_ = take<Started>();
    clock_.advance(computed);
    leaf_ = session_->finish(
        [&](std::size_t, Position position) {
          return choices.at(static_cast<std::size_t>(position - end));
        },
        {.took = computed, .share = computed, .rows = static_cast<std::uint32_t>(plan.rows())},
        now());
    return plan;
  }

  // The next message out, if it is a T.
  template <typename T>
  std::optional<T> take() {
    for (ServerMessage& message : session_->take_messages()) out_.push_back(std::move(message));
    if (out_.empty() || !std::holds_alternative<T>(out_.front())) return std::nullopt;
    T message = std::get<T>(out_.front());
    out_.erase(out_.begin());
    return message;
  }
  void drop_messages() {
    session_->take_messages();
    out_.clear();
  }

  ManualClock clock_;
  Target target_;
  Open open_;
  std::optional<VerifySession> session_;
  std::vector<ServerMessage> out_;
  std::optional<Opened> opened_;
  std::optional<Started> started_;
  NodeId next_id_ = 1;
  std::int32_t leaf_ = -1;
  Status status_;
};

TEST_F(SessionTest, AnnouncesItselfWithEveryStopId) {
  open_.stop_ids = {7, kStop};
  target_.model.fingerprint = "abc";
  begin({"the-name", 0, 16});
  ASSERT_TRUE(opened_);
  EXPECT_EQ(opened_->session_id, "the-name");
  EXPECT_EQ(opened_->fingerprint, "abc");
  EXPECT_THAT(opened_->stop_ids, ElementsAre(7, kStop));
  EXPECT_EQ(opened_->limits.max_positions, 64);
}

TEST_F(SessionTest, PrefillsAtOnceAndTakesNodesThatCameMeanwhileIntoPassZero) {
  begin();
  EXPECT_TRUE(runnable());
  grow({{10, 0, 255}, {11, 1, 255}});
  const PassPlan plan = run({10, 11, 12});
  EXPECT_THAT(plan.tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(plan.nodes, SizeIs(2));
  ASSERT_TRUE(started_);
  EXPECT_EQ(started_->pass, 0u);
  EXPECT_EQ(started_->position, 3);
  EXPECT_EQ(started_->last_id, 2u);
  const auto verdict = take<Verdict>();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->position, 3);
  EXPECT_THAT(verdict->tokens, ElementsAre(10, 11, 12));
  EXPECT_EQ(verdict->rows, 5u);
  EXPECT_EQ(leaf_, 1);
  EXPECT_THAT(session_->cached_text(), ElementsAre(1, 2, 3, 10, 11));
}

TEST_F(SessionTest, ALongPrefillGoesInChunksWithProgressAndNodesJoinTheLast) {
  open_.prefix = {1, 2, 3, 4, 5};
  begin({"id", 0, 2});
  EXPECT_THAT(run({}).tokens, ElementsAre(1, 2));
  EXPECT_FALSE(started_);
  const auto progress = take<Progress>();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->done, 2);
  EXPECT_EQ(progress->total, 5);
  EXPECT_FALSE(run({}).decides);
  drop_messages();
  grow({{10, 0, 255}});
  const PassPlan last = run({10, 11});
  EXPECT_TRUE(last.decides);
  EXPECT_THAT(last.tokens, ElementsAre(5));
  EXPECT_THAT(last.nodes, SizeIs(1));
  const auto verdict = take<Verdict>();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->rows, 6u);
  EXPECT_EQ(verdict->timings.computed, milliseconds(15));
}

TEST_F(SessionTest, APrefixThatIsCachedIsNotComputedAgain) {
  begin({"id", 2, 16});
  EXPECT_THAT(run({10}).tokens, ElementsAre(3));
  drop_messages();
  EXPECT_EQ(session_->usage().cached_tokens, 2u);
  EXPECT_EQ(session_->usage().prompt_tokens, 3u);
}

TEST_F(SessionTest, OnRequestWaitsForANodeUnderTheRoot) {
  begin_after_prefill(10);
  EXPECT_FALSE(session_->runnable_at());
  clock_.advance(milliseconds(30));
  grow({{11, 0, 255}});
  EXPECT_TRUE(runnable());
  const PassPlan plan = run({11, 12});
  EXPECT_THAT(plan.tokens, ElementsAre(10)) << "the last token decided is a row of the next pass";
  const auto verdict = take<Verdict>();
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->tokens, ElementsAre(11, 12));
  EXPECT_EQ(verdict->timings.waited, milliseconds(30));
  EXPECT_EQ(verdict->timings.queued, milliseconds(0));
}

TEST_F(SessionTest, TimeInTheQueueOfTheDeviceIsToldApart) {
  begin_after_prefill(10);
  grow({{11, 0, 255}});
  clock_.advance(milliseconds(8));
  run({11, 12});
  EXPECT_EQ(take<Verdict>()->timings.queued, milliseconds(8));
}

TEST_F(SessionTest, AnEmptyGrowAtTheEndAsksForAPassOnce) {
  begin_after_prefill(10);
  grow({});
  EXPECT_TRUE(runnable());
  EXPECT_THAT(run({11}).nodes, IsEmpty());
  EXPECT_FALSE(session_->runnable_at());
}

TEST_F(SessionTest, AStaleEmptyGrowIsIgnored) {
  begin_after_prefill(10);
  post({.acked_position = 3, .body = Grow{1, 3, {}}});
  EXPECT_TRUE(status_.ok());
  EXPECT_FALSE(session_->runnable_at());
}

TEST_F(SessionTest, AHitStartsTheNextPassWithoutAMessage) {
  begin();
  grow({{10, 0, 255}, {11, 1, 255}, {20, 0, 1}});
  // Only node 10 fits; the verdict's last token is node 11, so what hangs below it would go on.
  grow({{12, 2, 255}});
  post({.acked_position = 3, .body = Policy{.row_limit = 1}});
  run({10, 11});
  EXPECT_THAT(started_->left_out, ElementsAre(2, 3, 4));
  EXPECT_TRUE(runnable()) << "12 hangs under the root now";
  const PassPlan plan = run({12, 13});
  EXPECT_THAT(plan.tokens, ElementsAre(11));
  EXPECT_THAT(plan.nodes, SizeIs(1));
}

TEST_F(SessionTest, EagerWaitsForItsPatienceSinceItBecameIdle) {
  open_.policy = {.pass_policy = PassPolicy::kEager, .patience = milliseconds(20)};
  begin_after_prefill(10);
  ASSERT_TRUE(session_->runnable_at());
  EXPECT_EQ(*session_->runnable_at(), now() + milliseconds(20));
  clock_.advance(milliseconds(20));
  run({11});
  EXPECT_EQ(*session_->runnable_at(), now() + milliseconds(20));
  grow({{12, 0, 255}});
  EXPECT_TRUE(runnable()) << "a node under the root ends the waiting";
}

TEST_F(SessionTest, PatienceRunsAgainFromAChangeOfPolicy) {
  begin_after_prefill(10);
  clock_.advance(milliseconds(50));
  post({.acked_position = 4,
        .body = Policy{.pass_policy = PassPolicy::kEager, .patience = milliseconds(20)}});
  EXPECT_EQ(*session_->runnable_at(), now() + milliseconds(20));
  post({.acked_position = 4, .body = Policy{}});
  EXPECT_FALSE(session_->runnable_at());
}

TEST_F(SessionTest, NodesLeftOutByTheBudgetLiveOn) {
  target_.limits.max_rows = 3;
  begin_after_prefill(10);
  // Confidence decides; a child never goes without its parent.
  grow({{20, 0, 100}, {21, 1, 255}, {30, 0, 200}, {31, 3, 10}});
  run({20, 21});
  EXPECT_THAT(started_->left_out, ElementsAre(2, 4));
  drop_messages();
  // 20 stood; its child 21, left out, was what came next: committed without having cost a row.
  EXPECT_EQ(session_->tree().ids().state(2).kind, IdState::Kind::kCommitted);
  EXPECT_EQ(session_->tree().ids().state(3).kind, IdState::Kind::kDead);
}

TEST_F(SessionTest, NodesThatCouldNotBeAskedAboutAreLeftOut) {
  open_.end_position = 6;
  begin_after_prefill(10);             // end 4
  grow({{11, 0, 255}, {12, 1, 255}});  // positions 4 and 5; 5 is the last of the answer
  run({11, 12});
  EXPECT_THAT(started_->left_out, ElementsAre(2));
  EXPECT_THAT(take<Verdict>()->tokens, ElementsAre(11, 12));
  EXPECT_EQ(take<Usage>()->reason, FinishReason::kLength);
}

TEST_F(SessionTest, EndsAtTheFirstStopIdEvenInsideTheTree) {
  begin_after_prefill(10);
  grow({{11, 0, 255}, {kStop, 1, 255}, {12, 1, 255}});
  run({11, kStop, 12});
  EXPECT_THAT(take<Verdict>()->tokens, ElementsAre(11, kStop));
  const auto usage = take<Usage>();
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->reason, FinishReason::kStop);
  EXPECT_EQ(usage->prompt_tokens, 3u);
  EXPECT_EQ(usage->completion_tokens, 3u);
  EXPECT_EQ(usage->passes, 2u);
  EXPECT_EQ(usage->rows, 3u + 4u);
  EXPECT_EQ(usage->compute, milliseconds(10));
  EXPECT_TRUE(session_->finished());
  EXPECT_FALSE(session_->runnable_at());
  EXPECT_THAT(session_->cached_text(), ElementsAre(1, 2, 3, 10, 11));
}

TEST_F(SessionTest, TheAnswerEndsWhereTheTargetsContextDoes) {
  open_.end_position = 1'000'000'000'000;
  target_.limits.max_positions = 5;
  begin_after_prefill(10);
  grow({});
  run({11});
  EXPECT_TRUE(take<Verdict>());
  EXPECT_EQ(take<Usage>()->reason, FinishReason::kLength);
}

TEST_F(SessionTest, CancelEndsTheStreamWithUsage) {
  begin_after_prefill(10);
  grow({{11, 0, 255}});
  post({.acked_position = 4, .body = Cancel{}});
  EXPECT_EQ(take<Usage>()->reason, FinishReason::kCancelled);
  EXPECT_TRUE(session_->finished());
  EXPECT_FALSE(session_->runnable_at());
  post({.acked_position = 4, .body = Cancel{}});
  EXPECT_TRUE(status_.ok());
  EXPECT_THAT(session_->take_messages(), IsEmpty());
}

TEST_F(SessionTest, PausesWhenTheEdgeDoesNotAcknowledge) {
  open_.policy.pass_policy = PassPolicy::kEager;
  target_.limits.run_ahead = 3;
  begin();
  for (TokenId token = 10; token < 13; ++token) run({token});
  EXPECT_FALSE(session_->runnable_at());
  clock_.advance(milliseconds(100));
  post({.acked_position = 4, .body = AckOnly{}});
  EXPECT_EQ(*session_->runnable_at(), now());
  run({13});
  EXPECT_FALSE(session_->runnable_at());
  post({.acked_position = 3, .body = AckOnly{}});
  EXPECT_TRUE(status_.ok()) << "an older acknowledgement changes nothing";
  EXPECT_FALSE(session_->runnable_at());
}

TEST_F(SessionTest, CountsNodesDeadOnArrival) {
  begin_after_prefill(10);
  post({.acked_position = 3, .body = Grow{1, 3, {{10, 0, 0}, {20, 0, 0}, {21, 1, 0}}}});
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(session_->usage().dead_on_arrival, 2u);
  EXPECT_FALSE(session_->runnable_at()) << "dead nodes cost no pass";
}

TEST_F(SessionTest, RejectsWhatThePeerCannotMean) {
  struct Bad {
    EdgeMessage message;
    StatusCode code;
    const char* text;
  };
  const Bad bad[] = {
      {{.acked_position = 5, .body = AckOnly{}},
       StatusCode::kFailedPrecondition,
       "acked_position: 5 lies beyond the committed text; its end is 4"},
      {{.acked_position = -1, .body = AckOnly{}},
       StatusCode::kInvalidArgument,
       "acked_position: -1"},
      {{.acked_position = 4, .body = open_}, StatusCode::kFailedPrecondition, "Open: a second"},
      {{.acked_position = 4, .body = Grow{2, 4, {}}},
       StatusCode::kInvalidArgument,
       "Grow.first_id: 2"},
      {{.acked_position = 4, .body = Grow{1, 5, {}}},
       StatusCode::kFailedPrecondition,
       "its end is 4"},
      {{.acked_position = 4, .body = Grow{1, 4, std::vector<GrowNode>(65)}},
       StatusCode::kInvalidArgument,
       "expected at most 64"},
      {{.acked_position = 4, .body = Policy{.pass_policy = static_cast<PassPolicy>(7)}},
       StatusCode::kInvalidArgument,
       "Policy.pass_policy: 7"},
      {{.acked_position = 4, .body = Policy{.patience = Duration::max()}},
       StatusCode::kInvalidArgument,
       "Policy.patience"},
  };
  for (const Bad& each : bad) {
    begin_after_prefill(10);
    post(each.message);
    EXPECT_EQ(status_.code(), each.code) << status_.to_string();
    EXPECT_THAT(status_.message(), HasSubstr(each.text));
  }
}

TEST_F(SessionTest, WhoBoastsIsSoonBelievedNoMore) {
  open_.end_position = 64;
  begin_after_prefill(1);
  grow({{2, 0, 255}});
  EXPECT_FLOAT_EQ(session_->chances({}).at(0), 1) << "nothing else is known yet";
  for (int pass = 0; pass < 20; ++pass) {
    run({3});  // never what was drafted
    drop_messages();
    grow({{2, 0, 255}});
  }
  EXPECT_LT(session_->chances({}).at(0), 0.3f);
}

// --- nodes of the verifier's own -----------------------------------------------------------------

class OwnNodesTest : public SessionTest {
 protected:
  OwnNodesTest() {
    target_.draft_source = DraftSource::kLookup;
    open_.accepts_server_nodes = true;
    open_.prefix = {1, 2, 3, 4, 5, 9, 1, 2};
  }
};

TEST_F(OwnNodesTest, AreWalkedAndMarkedInTheVerdict) {
  begin_after_prefill(3);
  grow({});
  session_->draft_without_model(0.01);
  const PassPlan plan = run({4, 5, 7});
  ASSERT_GE(plan.nodes.size(), 2u);
  EXPECT_EQ(plan.nodes[0].token, 4);
  EXPECT_EQ(plan.nodes[0].id, 0u);
  EXPECT_THAT(started_->left_out, IsEmpty());
  const auto verdict = take<Verdict>();
  EXPECT_THAT(verdict->tokens, ElementsAre(4, 5, 7));
  EXPECT_EQ(verdict->server_nodes, 3u);
  EXPECT_FALSE(session_->recorder().drafts()) << "the edge has drafted none";
  EXPECT_EQ(session_->recorder().record(session_->usage(), now()).draft.own_accepted, 2u);
}

TEST_F(OwnNodesTest, OnlyTheirsAreMarked) {
  begin_after_prefill(3);
  grow({{4, 0, 255}});
  session_->draft_without_model(0.01);
  run({4, 5, 7});
  EXPECT_EQ(take<Verdict>()->server_nodes, 2u);
}

TEST_F(OwnNodesTest, StartNoPass) {
  begin_after_prefill(3);
  session_->draft_without_model(0.01);
  acknowledge();
  EXPECT_FALSE(runnable());
  EXPECT_GT(session_->tree().size(), 0u);
  grow({});
  EXPECT_TRUE(runnable());
}

TEST_F(OwnNodesTest, AreNotCountedAgainstTheEdgesLimit) {
  open_.policy.row_limit = 1;
  begin_after_prefill(3);
  grow({{7, 0, 255}, {8, 0, 255}});
  session_->draft_without_model(0.01);
  const PassPlan plan = run({1});
  EXPECT_EQ(started_->left_out.size(), 1u);
  EXPECT_GE(plan.nodes.size(), 3u);
}

TEST_F(OwnNodesTest, NobodyGetsThemWhoDoesNotAcceptThem) {
  open_.accepts_server_nodes = false;
  begin_after_prefill(3);
  EXPECT_FALSE(opened_->server_drafts);
  grow({});
  session_->draft_without_model(0.01);
  EXPECT_THAT(run({4}).nodes, IsEmpty());
}

}  // namespace
}  // namespace outrider
