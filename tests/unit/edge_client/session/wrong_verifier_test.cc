// A verifier that breaks the protocol: the answer ends with the evidence and keeps what was
// committed. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/decoding/protocol/messages.h"
#include "tests/unit/edge_client/session/session_harness.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

struct Garbled {
  std::string name;
  std::function<void(SessionHarness&)> play;
  std::string evidence;
};

class GarbledTest : public testing::TestWithParam<Garbled> {};

TEST_P(GarbledTest, EndsTheAnswerWithEvidenceAndCommitsNothing) {
  SessionHarness edge(Strategy::kSd);
  edge.start();
  edge.opened();
  edge.pass({5});
  GetParam().play(edge);
  ASSERT_TRUE(edge.finish);
  EXPECT_EQ(edge.finish->ending, Ending::kFailed);
  EXPECT_THAT(edge.finish->status.message(), HasSubstr(GetParam().evidence));
  EXPECT_THAT(edge.session->answer(), ElementsAre(5));
  EXPECT_THAT(edge.sent<Cancel>(), SizeIs(1));
}

Garbled verdict_with(const std::string& name, const std::function<void(Verdict&)>& spoil,
                     const std::string& evidence) {
  return {name,
          [spoil](SessionHarness& edge) {
            Verdict verdict{.pass = 1, .position = 4, .tokens = {6}, .rows = 4};
            spoil(verdict);
            edge.from_verifier(Started{.pass = 1, .position = 4, .last_id = 6});
            edge.from_verifier(verdict);
          },
          evidence};
}

Garbled started_with(const std::string& name, const Started& started, const std::string& evidence) {
  return {name, [started](SessionHarness& edge) { edge.from_verifier(started); }, evidence};
}

INSTANTIATE_TEST_SUITE_P(
    Messages, GarbledTest,
    testing::Values(
        verdict_with(
            "Position", [](Verdict& v) { v.position = 9; }, "verdict.position 9, expected 4"),
        verdict_with(
            "Pass", [](Verdict& v) { v.pass = 3; }, "verdict.pass 3, expected 1"),
        verdict_with(
            "NoTokens", [](Verdict& v) { v.tokens.clear(); }, "of length 0"),
        verdict_with(
            "TooManyTokens", [](Verdict& v) { v.tokens.assign(97, 1); },
            "of length 97, expected 1 to 96"),
        verdict_with(
            "TokenRange", [](Verdict& v) { v.tokens = {13}; }, "with 13, expected 0 to 12"),
        verdict_with(
            "NegativeToken", [](Verdict& v) { v.tokens = {-1}; }, "with -1"),
        verdict_with(
            "Rows", [](Verdict& v) { v.rows = 4294967295; },
            "verdict.rows 4294967295, expected at most 4100"),
        verdict_with(
            "BatchRowsBelowItsOwn", [](Verdict& v) { v.batch_rows = 4; },
            "verdict.batch_rows 4, expected 0 or 5 to 268435456"),
        verdict_with(
            "LogprobsThatNobodyAskedFor", [](Verdict& v) { v.logprobs.resize(1); },
            "verdict.logprobs of length 1, expected 0"),
        verdict_with(
            "DigestsThatNobodyAskedFor", [](Verdict& v) { v.digests.resize(1); },
            "verdict.digests of length 1, expected 0"),
        verdict_with(
            "BatchRows", [](Verdict& v) { v.batch_rows = 4294967295; },
            "verdict.batch_rows 4294967295, expected 0 or 5 to 268435456"),
        verdict_with(
            "AfterStop",
            [](Verdict& v) {
              v.tokens = {12, 1};
            },
            "verdict.tokens after the stop id 12"),
        verdict_with(
            "NotWalked",
            [](Verdict& v) {
              v.tokens = {11, 11, 11, 11};
            },
            "expected a node of pass 1 at position"),
        verdict_with(
            "ServerNodesBehindTheWalk",
            [](Verdict& v) {
              v.tokens = {11, 11};
              v.server_nodes = 3;
            },
            "verdict.server_nodes with bit 1, expected at most 1 bits"),
        verdict_with(
            "OneOfTheWalkIsNobodys",
            [](Verdict& v) {
              v.tokens = {11, 11, 11, 11};
              v.server_nodes = 5;
            },
            "expected a node of pass 1 at position"),
        started_with("StartedPass", {.pass = 2, .position = 4}, "started.pass 2, expected 1"),
        started_with("StartedPosition", {.pass = 1, .position = 5}, "started.position 5"),
        started_with("StartedIds", {.pass = 1, .position = 4, .last_id = 99},
                     "started.last_id 99, expected at most 6"),
        started_with("StartedLeftOut",
                     {.pass = 1, .position = 4, .left_out = std::vector<NodeId>(99, 1)},
                     "started.left_out of length 99, expected at most 3"),
        Garbled{"TwoStarts",
                [](SessionHarness& edge) {
                  edge.from_verifier(Started{.pass = 1, .position = 4});
                  edge.from_verifier(Started{.pass = 2, .position = 4});
                },
                "the verdict of pass 1"},
        Garbled{"NoStart",
                [](SessionHarness& edge) {
                  edge.from_verifier(Verdict{.pass = 1, .position = 4, .tokens = {6}});
                },
                "its Started message first"},
        Garbled{"TwoOpened", [](SessionHarness& edge) { edge.opened(); }, "Opened twice"},
        Garbled{
            "StopWithoutStopId",
            [](SessionHarness& edge) { edge.from_verifier(Usage{.reason = FinishReason::kStop}); },
            "usage.reason stop after token 5, expected a stop id"},
        Garbled{"LengthTooSoon",
                [](SessionHarness& edge) {
                  edge.from_verifier(Usage{.reason = FinishReason::kLength});
                },
                "at position 4, expected 100"}),
    [](const auto& test) { return test.param.name; });

TEST(Garbled, WordsBeforeOpenedEndTheAnswer) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.from_verifier(Started{.pass = 0, .position = 3});
  EXPECT_EQ(edge.finish->ending, Ending::kFailed);
}

// The prompt's last token says nothing of the answer.
TEST(Garbled, AStopBeforeTheFirstTokenEndsTheAnswerAsAFailure) {
  SessionHarness edge(Strategy::kAr);
  edge.start({1, 2, 12});
  edge.opened();
  edge.from_verifier(Usage{.reason = FinishReason::kStop});
  ASSERT_TRUE(edge.finish);
  EXPECT_EQ(edge.finish->ending, Ending::kFailed);
  EXPECT_THAT(edge.finish->status.message(), HasSubstr("a token of the answer first"));
}

TEST(Garbled, AnOpenedWithoutVocabularyEndsTheAnswer) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  Opened opened = SessionHarness::target();
  opened.limits.vocab_size = 0;
  edge.opened(opened);
  EXPECT_THAT(edge.finish->status.message(), HasSubstr("limits.vocab_size 0"));
}

TEST(Garbled, ExitReportsNobodyAskedForAreCountedAndAcknowledged) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  edge.from_verifier(ExitReport{.pass = 77, .leaf_id = 1000, .next_token = -5, .seq = 3});
  edge.from_verifier(ExitReport{.pass = 0, .seq = 2});
  EXPECT_FALSE(edge.finish);
  EXPECT_EQ(edge.session->stats().predraft.ignored_reports, 2u);
  edge.handle(CancelRequested{});
  EXPECT_EQ(edge.messages.back().acked_reports, 3u);
}

TEST(Garbled, AServerThatAsksTwiceForThePrefixEndsTheAnswer) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.from_verifier(Notice{Notice::Kind::kSendPrefix, Duration{0}});
  EXPECT_THAT(edge.sent<Prefix>(), SizeIs(1));
  edge.from_verifier(Notice{Notice::Kind::kSendPrefix, Duration{0}});
  EXPECT_THAT(edge.sent<Prefix>(), SizeIs(1));
  ASSERT_TRUE(edge.finish);
  EXPECT_THAT(edge.finish->status.message(), HasSubstr("asked for the prefix twice"));
}

}  // namespace
}  // namespace outrider
