// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/stream_path.h"

#include <gtest/gtest.h>

#include <chrono>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kRoundTrip = milliseconds(80);

PathSettings delayed() {
  PathSettings settings;
  settings.delay = milliseconds(40);
  return settings;
}

TEST(StreamPathTest, WithoutImpairmentsBytesAreDelayedInAnyPiece) {
  ImpairedPath path(delayed(), 0);
  StreamPath stream(path, kRoundTrip);
  EXPECT_GT(stream.largest_piece(), StreamPath::kMaxSegment);
  EXPECT_TRUE(stream.has_room(Duration::zero()));
  EXPECT_EQ(stream.send(50'000, seconds(1)), milliseconds(1040));
  EXPECT_EQ(stream.send_end(seconds(2)), milliseconds(2040));
}

TEST(StreamPathTest, ALostSegmentComesAfterTheTimeoutAndHoldsUpTheNext) {
  PathSettings settings = delayed();
  settings.loss.windows = {{.first = seconds(1), .length = milliseconds(100)}};
  ImpairedPath path(settings, 0);
  StreamPath stream(path, kRoundTrip);
  EXPECT_EQ(stream.largest_piece(), StreamPath::kMaxSegment);
  EXPECT_EQ(stream.send(100, milliseconds(1050)), milliseconds(1050 + 280 + 40));
  EXPECT_EQ(stream.send(100, milliseconds(1200)), milliseconds(1050 + 280 + 40));
  StreamPath other(path, kRoundTrip);
  EXPECT_EQ(other.send(100, milliseconds(1500)), milliseconds(1540));
}

TEST(StreamPathTest, TheTimeoutDoublesWhileItIsLostAgain) {
  PathSettings settings = delayed();
  settings.loss.windows = {{.first = seconds(1), .length = seconds(1)}};
  ImpairedPath path(settings, 0);
  StreamPath stream(path, kRoundTrip);
  // Sent again 280 and 840 ms after 1,100 ms: in the black-out; 1,960 ms after: past it.
  EXPECT_EQ(stream.send(100, milliseconds(1100)), milliseconds(1100 + 280 + 560 + 1120 + 40));
}

TEST(StreamPathTest, AFullQueueMakesTheSenderWait) {
  PathSettings settings = delayed();
  settings.bit_per_s = 1.2e6;  // 1500 bytes in 10 ms
  settings.queue_bytes = 3000;
  ImpairedPath path(settings, 0);
  StreamPath stream(path, kRoundTrip);
  EXPECT_EQ(stream.send(StreamPath::kMaxSegment, Duration::zero()), milliseconds(50));
  EXPECT_EQ(stream.send(StreamPath::kMaxSegment, Duration::zero()), milliseconds(60));
  EXPECT_FALSE(stream.has_room(Duration::zero()));
  EXPECT_EQ(stream.room_at(), milliseconds(10));
  EXPECT_TRUE(stream.has_room(milliseconds(10)));
}

TEST(StreamPathTest, WhatIsSilentNeverArrives) {
  PathSettings settings = delayed();
  settings.silent_from = seconds(1);
  ImpairedPath path(settings, 0);
  StreamPath stream(path, kRoundTrip);
  EXPECT_TRUE(stream.send(1, milliseconds(999)));
  EXPECT_FALSE(stream.send(1, seconds(1)));
  EXPECT_FALSE(stream.send_end(seconds(1)));
}

TEST(StreamPathTest, TcpGivesUpAtLast) {
  PathSettings settings = delayed();
  settings.loss.share = 1;
  ImpairedPath path(settings, 0);
  StreamPath stream(path, kRoundTrip);
  EXPECT_FALSE(stream.send(1, Duration::zero()));
}

}  // namespace
}  // namespace outrider
