// A pipe between two pairs of sockets, under a time that the test sets.
// SPDX-License-Identifier: Apache-2.0
#include "emulation/link/proxy_link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>

#include "common/base/posix.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

class StreamPipeTest : public testing::Test {
 protected:
  void SetUp() override {
    for (auto& [outer, inner] : {std::pair{&writer_, &from_}, std::pair{&reader_, &to_}}) {
      std::array<int, 2> ends;
      ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
      *outer = UniqueFd(ends[0]);
      *inner = UniqueFd(ends[1]);
    }
  }

  StreamPipe pipe_over(ImpairedPath& path, std::size_t max_in_flight = 1 << 20) {
    return {from_.get(), to_.get(), max_in_flight, StreamPath(path, milliseconds(80)),
            time_,       count_};
  }

  void write(const std::string& text) {
    ASSERT_EQ(send(writer_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }

  // All that has come; "END" at the end of the stream.
  std::string read() {
    std::array<char, 65536> some;
    const ssize_t got = recv(reader_.get(), some.data(), some.size(), 0);
    if (got == 0) return "END";
    return got < 0 ? "" : std::string(some.data(), static_cast<std::size_t>(got));
  }

  PathSettings delayed(int ms) const {
    PathSettings settings;
    settings.delay = milliseconds(ms);
    return settings;
  }

  void take_at(StreamPipe& pipe, Duration when) {
    clock_.sleep_until(TimePoint(when));
    pipe.take();
  }

  void deliver_at(StreamPipe& pipe, Duration when) {
    clock_.sleep_until(TimePoint(when));
    pipe.deliver();
  }

  ManualClock clock_;
  const LinkClock time_{clock_, TimePoint{}};
  UniqueFd writer_, from_, to_, reader_;
  std::atomic<std::uint64_t> count_{0};
};

TEST_F(StreamPipeTest, EveryByteIsLateByTheDelayAndNoMore) {
  ImpairedPath path(delayed(12), 0);
  StreamPipe pipe = pipe_over(path);
  write("abc");
  take_at(pipe, milliseconds(5));
  EXPECT_EQ(pipe.next_due(), milliseconds(17));
  deliver_at(pipe, milliseconds(17) - Duration(1));
  EXPECT_EQ(read(), "");
  deliver_at(pipe, milliseconds(17));
  EXPECT_EQ(read(), "abc");
  EXPECT_EQ(count_.load(), 3u);
  EXPECT_FALSE(pipe.next_due());
}

TEST_F(StreamPipeTest, BytesOnTheirWayDoNotHoldEachOtherUp) {
  ImpairedPath path(delayed(50), 0);
  StreamPipe pipe = pipe_over(path);
  for (int i = 0; i < 10; ++i) {
    write(std::string(1, static_cast<char>('a' + i)));
    take_at(pipe, milliseconds(3 * i));
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(pipe.next_due(), milliseconds(3 * i + 50));
    deliver_at(pipe, milliseconds(3 * i + 50));
    EXPECT_EQ(read(), std::string(1, static_cast<char>('a' + i)));
  }
}

TEST_F(StreamPipeTest, TheEndOfAStreamIsDelayedAsItsBytesAre) {
  ImpairedPath path(delayed(30), 0);
  StreamPipe pipe = pipe_over(path);
  write("x");
  shutdown(writer_.get(), SHUT_WR);
  take_at(pipe, milliseconds(0));
  EXPECT_FALSE(pipe.wants_to_read());
  deliver_at(pipe, milliseconds(29));
  EXPECT_FALSE(pipe.finished());
  deliver_at(pipe, milliseconds(30));
  EXPECT_EQ(read(), "x");
  EXPECT_EQ(read(), "END");
  EXPECT_TRUE(pipe.finished());
}

TEST_F(StreamPipeTest, AtARateSegmentsComeOneAfterTheOtherAndTheSenderWaits) {
  PathSettings settings = delayed(40);
  settings.bit_per_s = 1.2e6;  // a full segment in 10 ms
  settings.queue_bytes = 3000;
  ImpairedPath path(settings, 0);
  StreamPipe pipe = pipe_over(path);
  write(std::string(4 * StreamPath::kMaxSegment, 'z'));
  take_at(pipe, milliseconds(0));
  EXPECT_FALSE(pipe.wants_to_read());
  EXPECT_EQ(pipe.next_due(), milliseconds(10));  // room for the third
  take_at(pipe, milliseconds(10));
  EXPECT_EQ(pipe.next_due(), milliseconds(20));
  take_at(pipe, milliseconds(20));
  take_at(pipe, milliseconds(30));
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(pipe.next_due(), milliseconds(10 * i + 40));
    deliver_at(pipe, milliseconds(10 * i + 40));
    EXPECT_EQ(read().size(), StreamPath::kMaxSegment);
  }
}

TEST_F(StreamPipeTest, WhatIsInFlightIsBounded) {
  ImpairedPath path(delayed(40), 0);
  StreamPipe pipe = pipe_over(path, 1000);
  write(std::string(1000, 'z'));
  take_at(pipe, milliseconds(0));
  EXPECT_FALSE(pipe.wants_to_read());
  deliver_at(pipe, milliseconds(40));
  EXPECT_TRUE(pipe.wants_to_read());
}

TEST_F(StreamPipeTest, ASilentDirectionSwallowsBytesAndTheEnd) {
  PathSettings settings = delayed(10);
  settings.silent_from = milliseconds(100);
  ImpairedPath path(settings, 0);
  StreamPipe pipe = pipe_over(path);
  write("gone");
  take_at(pipe, milliseconds(100));
  EXPECT_FALSE(pipe.next_due());
  EXPECT_TRUE(pipe.wants_to_read());
  shutdown(writer_.get(), SHUT_WR);
  take_at(pipe, milliseconds(101));
  EXPECT_FALSE(pipe.next_due());
  deliver_at(pipe, milliseconds(10'000));
  EXPECT_EQ(read(), "");
  EXPECT_FALSE(pipe.finished());
  EXPECT_FALSE(pipe.broken());
}

}  // namespace
}  // namespace outrider
