// What --trace shows of an answer. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge_client/metrics/timeline_recorder.h"
#include "edge_client/session/decoding_session.h"
#include "tests/unit/edge_client/session/session_harness.h"

namespace outrider {
namespace {

using testing::HasSubstr;

class TraceTest : public testing::Test {
 protected:
  TraceTest() {
    edge_.options.observer = &recorder_;
    edge_.options.speculation.first.optimize = Optimize::kCost;
  }

  SessionHarness edge_{Strategy::kMirror};
  Timeline timeline_;
  TimelineRecorder recorder_{timeline_};
};

TEST_F(TraceTest, TellsOfBothSides) {
  edge_.start();
  edge_.opened();
  edge_.from_verifier(Started{.pass = 0, .position = 3, .last_id = 3});
  edge_.from_verifier(Verdict{.pass = 0, .position = 3, .tokens = {11}, .rows = 4});
  const std::string trace = timeline_.chrome_trace();
  EXPECT_THAT(trace, HasSubstr("catch up"));
  EXPECT_THAT(trace, HasSubstr("Grow of 3 nodes"));
  EXPECT_THAT(trace, HasSubstr("pass 0 started"));
  EXPECT_THAT(trace, HasSubstr("pass 0, 4 rows"));
}

// The trace has one mark for each verdict that is counted, with the counter's name.
TEST_F(TraceTest, CallsAHitWhatTheCountersCallIt) {
  edge_.hold_draft_steps = true;
  edge_.start();
  edge_.opened();
  while (edge_.held_step() && edge_.sent<Grow>().empty()) edge_.run_held_step();
  const NodeId last_id = edge_.tree().ids().last_id();
  edge_.from_verifier(Started{.pass = 0, .position = 3, .last_id = last_id});
  // A runner-up comes of which nothing was drafted: it was named, but that is no hit.
  TokenId token = 0;
  for (const NodeIndex child : edge_.tree().children(kRoot)) {
    const TreeNode& node = edge_.tree().node(child);
    if (node.id == 0 && node.token != 12) token = node.token;  // 12 ends the text
  }
  edge_.from_verifier(Verdict{.pass = 0, .position = 3, .tokens = {token}, .rows = 4});
  const PredraftStats& stats = edge_.session->stats().predraft;
  ASSERT_EQ(stats.verdicts, 1u);
  EXPECT_EQ(stats.hits, 0u);
  const std::string trace = timeline_.chrome_trace();
  EXPECT_THAT(trace, testing::Not(HasSubstr("hit: 0 tokens")));
  EXPECT_THAT(trace, HasSubstr(stats.late_hits == 1 ? "\"late hit: " : "\"miss\""));
}

TEST_F(TraceTest, ShowsWhatTheAnswerWaitsFor) {
  edge_.start();
  edge_.opened();
  edge_.clock.advance(from_ms(70));
  edge_.pass({1});
  edge_.from_verifier(Started{.pass = 1, .position = 4, .last_id = 0});
  edge_.clock.advance(from_ms(50));
  edge_.from_verifier(Verdict{.pass = 1,
                              .position = 4,
                              .tokens = {2},
                              .rows = 1,
                              .timings = {.queued = from_ms(5), .computed = from_ms(40)}});
  const std::string trace = timeline_.chrome_trace();
  EXPECT_THAT(trace, HasSubstr("the answer waits for"));
  EXPECT_THAT(trace, HasSubstr("\"the first verdict\""));
  EXPECT_THAT(trace, HasSubstr("\"the target\""));
  EXPECT_THAT(trace, HasSubstr("\"dur\":40000.0"));
  EXPECT_THAT(trace, HasSubstr("\"other sessions\""));
}

}  // namespace
}  // namespace outrider
