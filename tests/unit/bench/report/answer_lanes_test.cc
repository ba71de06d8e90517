// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/answer_lanes.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// A trace as edge_client/metrics/timeline.cc writes it; times in microseconds.
constexpr const char* kRecordedTrace = R"({"displayTimeUnit":"ms","traceEvents":[
  {"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"outrider-edge"}},
  {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"draft model"}},
  {"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"sent"}},
  {"ph":"M","name":"thread_name","pid":1,"tid":3,"args":{"name":"heard"}},
  {"ph":"M","name":"thread_name","pid":2,"tid":4,"args":{"name":"target passes"}},
  {"ph":"X","name":"draft 1 rows","ts":0,"dur":8000,"pid":1,"tid":1},
  {"ph":"i","name":"Policy","ts":8000,"pid":1,"tid":2,"s":"t"},
  {"ph":"i","name":"Grow of 4 nodes","ts":9000,"pid":1,"tid":2,"s":"t"},
  {"ph":"i","name":"pass 0 started","ts":20000,"pid":1,"tid":3,"s":"t"},
  {"ph":"i","name":"the exit after layer 4 of pass 0, confidence 9/255","ts":25000,"pid":1,"tid":3},
  {"ph":"X","name":"pass 0, 5 rows","ts":15000,"dur":20000,"pid":2,"tid":4},
  {"ph":"i","name":"verdict of pass 0: 5 tokens","ts":40000,"pid":1,"tid":3,"s":"t"}]})";

TEST(AnswerLanesTest, AreThoseOfBothSidesSinceTheRequest) {
  EdgeAnswer answer;
  answer.trace = kRecordedTrace;
  answer.record.stats.chunk_at = {from_ms(50)};  // 10 ms went by before the trace's first event
  const Result<AnswerLanes> lanes = lanes_of(answer);
  ASSERT_TRUE(lanes.ok()) << lanes.status().to_string();
  ASSERT_EQ(lanes->drafting.size(), 1u);
  EXPECT_DOUBLE_EQ(lanes->drafting[0].begin_ms, 10);
  EXPECT_DOUBLE_EQ(lanes->drafting[0].end_ms, 18);
  ASSERT_EQ(lanes->rounds.size(), 1u) << "a Policy is no round";
  EXPECT_DOUBLE_EQ(lanes->rounds[0].at_ms, 19);
  ASSERT_EQ(lanes->passes.size(), 1u);
  EXPECT_DOUBLE_EQ(lanes->passes[0].end_ms, 45);
  ASSERT_EQ(lanes->reports.size(), 1u) << "a pass that started is no report";
  ASSERT_EQ(lanes->verdicts.size(), 1u);
  EXPECT_DOUBLE_EQ(lanes->verdicts[0].at_ms, 50);
}

TEST(AnswerLanesTest, WhatIsNoTraceIsRefusedAndAnAnswerWithoutVerdictHasNone) {
  EdgeAnswer answer;
  EXPECT_FALSE(lanes_of(answer).ok());
  answer.trace = "{}";
  EXPECT_FALSE(lanes_of(answer).ok());
  answer.trace = R"({"traceEvents":[]})";
  EXPECT_TRUE(lanes_of(answer)->passes.empty());
}

}  // namespace
}  // namespace outrider
