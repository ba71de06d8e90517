// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/timeline.h"

#include <gtest/gtest.h>

#include "tests/unit/edge_client/metrics/at_ms.h"

namespace outrider {
namespace {

TEST(Timeline, IsAChromeTraceFromTheFirstEventOn) {
  Timeline timeline;
  timeline.span(Timeline::Track::kDraft, "draft 1 rows", at_ms(5), from_ms(2));
  timeline.mark(Timeline::Track::kHeard, "pass 0 started", at_ms(6));
  const std::string trace = timeline.chrome_trace();
  EXPECT_NE(trace.find("\"traceEvents\""), std::string::npos);
  EXPECT_NE(trace.find("\"dur\":2000.0"), std::string::npos);
  EXPECT_NE(trace.find("\"ts\":1000.0"), std::string::npos);
  EXPECT_NE(trace.find("outrider-server"), std::string::npos);
}

TEST(Timeline, SpansOfOneTrackDoNotOverlap) {
  Timeline timeline;
  timeline.span(Timeline::Track::kTarget, "pass 0", at_ms(10), from_ms(20));
  timeline.span(Timeline::Track::kDraft, "draft", at_ms(12), from_ms(1));
  timeline.span(Timeline::Track::kTarget, "pass 1", at_ms(25), from_ms(20));
  const std::string trace = timeline.chrome_trace();
  EXPECT_NE(trace.find("\"dur\":15000.0,\"name\":\"pass 1\""), std::string::npos) << trace;
  EXPECT_NE(trace.find("\"dur\":1000.0,\"name\":\"draft\""), std::string::npos) << trace;
}

}  // namespace
}  // namespace outrider
