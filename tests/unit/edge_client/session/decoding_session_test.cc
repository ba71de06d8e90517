// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/decoding_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/edge_client/session/session_harness.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

using Ids = std::vector<TokenId>;

class SpeculatingTest : public testing::Test {
 protected:
  SessionHarness edge_{Strategy::kSd};
};

class StreamingTest : public testing::Test {
 protected:
  SessionHarness edge_{Strategy::kAr};
};

// --- speculative rounds -----------------------------------------------------------------------

TEST_F(SpeculatingTest, OpenIsFollowedByTheFirstRoundWithoutWaiting) {
  edge_.start({1, 2, 3});
  ASSERT_THAT(edge_.messages, SizeIs(2));
  const Open open = edge_.sent<Open>().at(0);
  EXPECT_THAT(open.prefix, ElementsAre(1, 2, 3));
  EXPECT_EQ(open.policy.pass_policy, PassPolicy::kOnRequest);
  EXPECT_EQ(open.tokenizer_hash, "hash");
  EXPECT_TRUE(open.expected_fingerprint.empty());
  const Grow grow = edge_.sent<Grow>().at(0);
  EXPECT_EQ(SessionHarness::tokens_of(grow), edge_.draft_says(3));
  EXPECT_EQ(grow.anchor_position, 3);
}

TEST_F(SpeculatingTest, TheNextRoundFollowsTheVerdict) {
  edge_.start();
  edge_.opened();
  const Ids drafted = edge_.draft_says(3);
  edge_.pass({drafted[0], drafted[1], (drafted[2] + 1) % 12});
  ASSERT_THAT(edge_.sent<Grow>(), SizeIs(2));
  EXPECT_EQ(SessionHarness::tokens_of(edge_.sent<Grow>()[1]), edge_.draft_says(3));
  EXPECT_EQ(edge_.sent<Grow>()[1].anchor_position, 6);
  EXPECT_EQ(edge_.messages.back().acked_position, 6);
  EXPECT_THAT(edge_.shown_drafted, ElementsAre(true, true, false));
}

TEST_F(SpeculatingTest, AWholeRoundAcceptedIsCommittedWithTheBonusToken) {
  edge_.start();
  edge_.opened();
  Ids tokens = edge_.draft_says(3);
  tokens.push_back(5);
  edge_.pass(tokens);
  EXPECT_EQ(edge_.session->answer(), tokens);
  EXPECT_EQ(edge_.session->stats().acceptance_length, 4.0);
  EXPECT_EQ(edge_.session->stats().acceptance_rate, 1.0);
}

TEST_F(SpeculatingTest, ARoundIsSentWholeHoweverLongTheDraftTakes) {
  edge_.hold_draft_steps = true;
  edge_.start();
  edge_.opened();
  for (int i = 0; i < 2; ++i) {
    edge_.run_held_step();
    EXPECT_THAT(edge_.sent<Grow>(), IsEmpty());
  }
  edge_.run_held_step();
  ASSERT_THAT(edge_.sent<Grow>(), SizeIs(1));
  EXPECT_THAT(edge_.sent<Grow>()[0].nodes, SizeIs(3));
}

TEST_F(SpeculatingTest, NodesThatSurviveAVerdictAreTheNextRound) {
  edge_.start();
  edge_.opened();
  const Ids drafted = edge_.draft_says(3);
  // The round came after pass 0 had begun: it took none of the nodes.
  edge_.from_verifier(Started{.pass = 0, .position = 3, .last_id = 0});
  edge_.from_verifier(Verdict{.pass = 0, .position = 3, .tokens = {drafted[0]}, .rows = 3});
  EXPECT_THAT(edge_.sent<Grow>(), SizeIs(1)) << "the server goes on with the living two";
  edge_.next_pass = 1;
  edge_.pass({drafted[1], drafted[2], 4});
  EXPECT_THAT(edge_.sent<Grow>(), SizeIs(2));
}

TEST_F(SpeculatingTest, WithNothingLeftToDraftAnEmptyGrowAsksForThePass) {
  edge_.options.speculation.end_position = 5;
  edge_.start();
  EXPECT_THAT(edge_.sent<Grow>().at(0).nodes, SizeIs(1)) << "the verdict ends with one token more";
  edge_.opened();
  edge_.pass({(edge_.draft_says(1)[0] + 1) % 12});
  ASSERT_THAT(edge_.sent<Grow>(), SizeIs(2));
  EXPECT_THAT(edge_.sent<Grow>()[1].nodes, IsEmpty());
  EXPECT_EQ(edge_.sent<Grow>()[1].anchor_position, 4);
}

TEST_F(SpeculatingTest, BeforePassZeroNoEmptyGrowIsNeeded) {
  edge_.options.speculation.end_position = 4;
  edge_.start();
  edge_.opened();
  EXPECT_THAT(edge_.sent<Grow>(), IsEmpty());
}

TEST_F(SpeculatingTest, TheVerifiersRowLimitBoundsARound) {
  Opened narrow = SessionHarness::target();
  narrow.limits.max_rows = 3;
  edge_.hold_draft_steps = true;
  edge_.start();
  edge_.opened(narrow);
  while (edge_.held_step()) edge_.run_held_step();
  EXPECT_THAT(edge_.sent<Grow>().at(0).nodes, SizeIs(2));
}

TEST_F(SpeculatingTest, AFullDraftContextSwitchesToStreamingAndIsSaidOnce) {
  edge_.draft_context = 5;
  edge_.start();
  edge_.opened();
  edge_.pass({1});
  edge_.pass({2});
  edge_.pass({3});
  edge_.pass({4});
  ASSERT_THAT(edge_.sent<Policy>(), SizeIs(1));
  EXPECT_EQ(edge_.sent<Policy>()[0].pass_policy, PassPolicy::kEager);
  EXPECT_EQ(std::ranges::count_if(edge_.lines,
                                  [](const std::string& l) {
                                    return l.find("OFF from here because the draft's context") !=
                                           std::string::npos;
                                  }),
            1);
  EXPECT_THAT(edge_.session->answer(), ElementsAre(1, 2, 3, 4));
}

TEST_F(SpeculatingTest, APromptBeyondTheDraftsContextStreamsFromTheStart) {
  edge_.draft_context = 2;
  edge_.start({1, 2, 3});
  EXPECT_EQ(edge_.sent<Open>().at(0).policy.pass_policy, PassPolicy::kEager);
  edge_.opened();
  EXPECT_TRUE(edge_.said("speculation: OFF because"));
  EXPECT_FALSE(edge_.said("speculation: ON"));
}

TEST_F(SpeculatingTest, AFailingDraftModelDoesNotEndTheAnswer) {
  edge_.hold_draft_steps = true;
  edge_.start();
  edge_.opened();
  edge_.fail_held_step(resource_exhausted("no memory"));
  EXPECT_TRUE(edge_.said("OFF because the draft model failed: no memory"));
  EXPECT_EQ(edge_.sent<Policy>().at(0).pass_policy, PassPolicy::kEager);
  edge_.pass({5});
  EXPECT_EQ(edge_.shown, "f");
}

TEST_F(SpeculatingTest, AStepThatFailedIsNotAbandonedWhenItsRowsDie) {
  edge_.hold_draft_steps = true;
  edge_.start();
  edge_.opened();
  edge_.run_held_step();
  ASSERT_FALSE(edge_.held_step()->grow.empty());
  edge_.fail_held_step(resource_exhausted("no memory"));
  edge_.pass({5});  // the harness refuses to abandon a step that is not out
  EXPECT_EQ(edge_.shown, "f");
}

TEST_F(SpeculatingTest, RoundTripsAreMeasuredWithoutTheServersQueue) {
  edge_.start();
  edge_.opened();
  edge_.pass({5});  // asks for the next pass
  edge_.clock.advance(from_ms(50));
  const auto last_id = static_cast<NodeId>(6);
  edge_.from_verifier(Started{.pass = 1, .position = 4, .last_id = last_id});
  edge_.clock.advance(from_ms(300));
  edge_.from_verifier(Verdict{.pass = 1,
                              .position = 4,
                              .tokens = {6},
                              .rows = 4,
                              .timings = {.queued = from_ms(20), .computed = from_ms(300)}});
  EXPECT_EQ(edge_.session->stats().rtt_ms, 30.0);
}

TEST_F(SpeculatingTest, AcceptanceIsCountedPerPosition) {
  edge_.start();
  edge_.opened();
  const Ids drafted = edge_.draft_says(3);
  edge_.pass({drafted[0], (drafted[1] + 1) % 12});
  edge_.pass({(edge_.draft_says(1)[0] + 1) % 12});
  const DecodingStats& stats = edge_.session->stats();
  EXPECT_EQ(stats.num_drafts, 2u);
  EXPECT_EQ(stats.num_draft_tokens, 6u);
  EXPECT_EQ(stats.num_accepted_tokens, 1u);
  EXPECT_THAT(stats.drafted_per_position, ElementsAre(2, 2, 2));
  EXPECT_THAT(stats.accepted_per_position, ElementsAre(1, 0, 0));
  EXPECT_EQ(stats.acceptance_length, 1.5);
  EXPECT_EQ(stats.tokens_per_pass, 1.5);
}

// --- streaming --------------------------------------------------------------------------------

TEST_F(StreamingTest, OpensEagerAndSendsNoNodes) {
  edge_.start();
  edge_.opened();
  for (TokenId token = 0; token < 5; ++token) edge_.pass({token});
  EXPECT_EQ(edge_.sent<Open>().at(0).policy.pass_policy, PassPolicy::kEager);
  EXPECT_EQ(edge_.sent<Open>().at(0).policy.patience, Duration{0});
  EXPECT_THAT(edge_.messages, SizeIs(1));
  EXPECT_EQ(edge_.shown, "abcde");
}

TEST_F(StreamingTest, AcknowledgesLongBeforeTheServerWouldPause) {
  Opened opened = SessionHarness::target();
  opened.limits.run_ahead = 16;
  edge_.start();
  edge_.opened(opened);
  Position max_behind = 0;
  for (int i = 0; i < 40; ++i) {
    edge_.pass({1});
    max_behind = std::max(max_behind, edge_.end() - edge_.messages.back().acked_position);
  }
  EXPECT_LE(max_behind, 2);
  EXPECT_THAT(edge_.sent<AckOnly>(), SizeIs(20));
}

TEST_F(StreamingTest, AStopIdEndsTheAnswerAndUsageCompletesIt) {
  edge_.start();
  edge_.opened();
  edge_.pass({4});
  edge_.pass({12});
  EXPECT_FALSE(edge_.finish);
  edge_.usage({.reason = FinishReason::kStop, .prompt_tokens = 3, .cached_tokens = 2});
  ASSERT_TRUE(edge_.finish);
  EXPECT_EQ(edge_.finish->ending, Ending::kStopToken);
  EXPECT_EQ(edge_.session->stats().cached_tokens, 2u);
}

TEST_F(StreamingTest, AFarewellThatNeverComesIsNotWaitedForLong) {
  edge_.start();
  edge_.opened();
  edge_.pass({12});
  edge_.tick_when_due();
  ASSERT_TRUE(edge_.finish);
  EXPECT_EQ(edge_.finish->ending, Ending::kStopToken);
}

TEST_F(StreamingTest, TheEndPositionEndsTheAnswerByLength) {
  edge_.options.speculation.end_position = 5;
  edge_.start();
  edge_.opened();
  edge_.pass({4});
  edge_.pass({5});
  edge_.usage({.reason = FinishReason::kLength});
  EXPECT_EQ(edge_.finish->ending, Ending::kLength);
}

TEST_F(StreamingTest, TheTargetsContextEndsTheAnswerSooner) {
  Opened small = SessionHarness::target();
  small.limits.max_positions = 4;
  edge_.start();
  edge_.opened(small);
  edge_.pass({4});
  edge_.usage({.reason = FinishReason::kLength});
  EXPECT_EQ(edge_.finish->ending, Ending::kContextFull);
}

TEST_F(StreamingTest, APromptBeyondTheTargetsContextIsRefusedWithBothNumbers) {
  Opened small = SessionHarness::target();
  small.limits.max_positions = 3;
  edge_.start();
  edge_.opened(small);
  ASSERT_TRUE(edge_.finish);
  EXPECT_THAT(edge_.finish->status.message(),
              testing::AllOf(HasSubstr("has 3 tokens"), HasSubstr("holds 3")));
}

TEST_F(StreamingTest, NoTokensWantedMeansNoStreamAtAll) {
  edge_.options.speculation.end_position = 3;
  edge_.start();
  EXPECT_THAT(edge_.messages, IsEmpty());
  EXPECT_EQ(edge_.finish->ending, Ending::kLength);
}

TEST_F(StreamingTest, LongPrefillsReportProgress) {
  edge_.start();
  edge_.opened();
  edge_.from_verifier(Progress{.done = 1, .total = 3});
  edge_.from_verifier(Progress{.done = 0, .total = 0});
  EXPECT_EQ(edge_.progress_reports, 1);
}

TEST(StopStrings, TruncateCancelAndIgnoreWhatStillArrives) {
  SessionHarness edge(Strategy::kAr, 3, "cd");
  edge.start();
  edge.opened();
  edge.pass({1});
  edge.pass({2});
  edge.pass({3});
  EXPECT_THAT(edge.sent<Cancel>(), SizeIs(1));
  edge.pass({4});
  edge.usage({.reason = FinishReason::kCancelled});
  ASSERT_TRUE(edge.finish);
  EXPECT_EQ(edge.finish->ending, Ending::kStopString);
  EXPECT_EQ(edge.shown, "bc") << "the test's text holds nothing back";
  EXPECT_THAT(edge.session->answer(), ElementsAre(1, 2, 3));
}

TEST(StopStrings, EndInTheMiddleOfAVerdict) {
  SessionHarness edge(Strategy::kSd, 3);
  edge.start();
  const Ids drafted = edge.draft_says(3);
  SessionHarness stopping(Strategy::kSd, 3, std::string(1, static_cast<char>('a' + drafted[1])));
  stopping.start();
  stopping.opened();
  stopping.pass({drafted[0], drafted[1], drafted[2], 5});
  EXPECT_THAT(stopping.session->answer(), ElementsAre(drafted[0], drafted[1]));
  EXPECT_EQ(stopping.session->stats().completion_tokens, 2u);
}

// --- cancel -----------------------------------------------------------------------------------

TEST_F(StreamingTest, CancelIsToldToTheServerAndWaitsForItsUsage) {
  edge_.start();
  edge_.opened();
  edge_.pass({4});
  edge_.handle(CancelRequested{});
  EXPECT_THAT(edge_.sent<Cancel>(), SizeIs(1));
  EXPECT_FALSE(edge_.finish);
  edge_.usage({.reason = FinishReason::kCancelled});
  EXPECT_EQ(edge_.finish->ending, Ending::kCancelled);
  EXPECT_EQ(edge_.shown, "e.");
}

TEST_F(StreamingTest, CancelWithoutALinkEndsAtOnce) {
  edge_.start();
  edge_.stream_ends(unavailable("connection refused"));
  edge_.handle(CancelRequested{});
  EXPECT_EQ(edge_.finish->ending, Ending::kCancelled);
}

}  // namespace
}  // namespace outrider
