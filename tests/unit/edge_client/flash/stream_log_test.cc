// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/stream_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TimePoint at(double ms) {
  return TimePoint{} + from_ms(ms);
}

// Two layers and the output matrix; the second layer and the matrix are streamed.
void run_pass(StreamLog& log, double begin, double read_before) {
  log.computes(0, from_ms(read_before), at(begin));
  log.waits_for(1, from_ms(read_before + 4), at(begin + 5));
  log.computes(1, from_ms(read_before + 7), at(begin + 8));
  log.waits_for(2, from_ms(read_before + 10), at(begin + 12));
  log.computes(2, from_ms(read_before + 10), at(begin + 12));
  log.end_pass(from_ms(read_before + 11), at(begin + 14));
}

std::vector<std::string> names(const std::vector<StreamSpan>& spans, StreamSpan::Lane lane) {
  std::vector<std::string> found;
  for (const StreamSpan& span : spans) {
    if (span.lane == lane) found.push_back(span.what);
  }
  return found;
}

TEST(StreamLogTest, DividesAPassOnceByTheCoresAndOnceByTheDisk) {
  StreamLog log(2);
  run_pass(log, 100, 30);
  run_pass(log, 130, 50);
  const StreamedTimes times = log.times();
  EXPECT_EQ(times.passes, 2u);
  EXPECT_EQ(times.length, from_ms(28));
  EXPECT_EQ(times.computing, from_ms(22));
  EXPECT_EQ(times.waiting, from_ms(6));
  EXPECT_EQ(times.reading, from_ms(22));
}

TEST(StreamLogTest, AReadFromBeforeThePassMakesItNoLongerThanItWas) {
  StreamLog log(2);
  log.computes(0, from_ms(0), at(0));
  log.end_pass(from_ms(9), at(2));
  EXPECT_EQ(log.times().reading, from_ms(2));
}

TEST(StreamLogTest, KeepsSpansOnlyWhenTheyAreWanted) {
  StreamLog log(2);
  run_pass(log, 0, 0);
  EXPECT_TRUE(log.take_spans().empty());
  log.keep_spans();
  log.has_read(2, at(3), at(7));
  run_pass(log, 20, 20);
  const std::vector<StreamSpan> spans = log.take_spans();
  EXPECT_THAT(names(spans, StreamSpan::Lane::kDisk), ElementsAre("read the output matrix"));
  EXPECT_THAT(names(spans, StreamSpan::Lane::kCores),
              ElementsAre("layer 0", "waits for layer 1", "layer 1", "the output matrix"));
  EXPECT_THAT(names(spans, StreamSpan::Lane::kPass),
              ElementsAre(HasSubstr("reading 11.0 ms, computing 11.0 ms, waiting for reads 3.0 ms, "
                                    "disk idle 3.0 ms")));
  EXPECT_TRUE(log.take_spans().empty());
}

TEST(StreamLogTest, EndingNoPassIsNoPass) {
  StreamLog log(2);
  log.end_pass(from_ms(5), at(5));
  EXPECT_EQ(log.times().passes, 0u);
}

}  // namespace
}  // namespace outrider
