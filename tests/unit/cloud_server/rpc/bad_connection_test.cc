// Peers that do not speak the protocol, or speak HTTP/2 with malice. The server drops them, and a
// bystander's session goes on.
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <fstream>
#include <thread>

#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

using http2::Frame;
using http2::frame;
using http2::header;
using testing::AllOf;
using testing::HasSubstr;

using BadConnectionTest = ServerTest;

// Resident memory of this process, in MiB.
long resident_mib() {
  std::ifstream statm("/proc/self/statm");
  long total = 0;
  long resident = 0;
  statm >> total >> resident;
  return resident * 4096 / (1 << 20);
}

// Does nothing under a sanitizer, which keeps freed memory and adds shadow memory.
void expect_little_more_than([[maybe_unused]] long before) {
#if !defined(OUTRIDER_SANITIZED)
  EXPECT_LT(resident_mib(), before + 24);
#endif
}

// Far more than expect_little_more_than() allows.
constexpr std::size_t kFlood = std::size_t{96} << 20;

std::string repeat(const std::string& bytes, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += bytes;
  return out;
}

// Peers that do not speak this port's protocol: all are counted, the first is logged.
class ForeignTest : public ServerTest {
 protected:
  void expect_dropped(const std::string& bytes, const char* why) {
    for (std::uint64_t i = 1; i <= 3; ++i) {
      RawSocket socket(address());
      ASSERT_TRUE(socket.send(bytes));
      EXPECT_EQ(socket.read_until_closed(), "");
      EXPECT_EQ(faults_.counts().refused, i);
    }
    ASSERT_EQ(log_lines().size(), 1u);
    EXPECT_THAT(log_lines()[0], AllOf(HasSubstr("refused 127.0.0.1:"), HasSubstr(why)));
    expect_serves();
  }
};

TEST_F(ForeignTest, GarbageIsDropped) {
  expect_dropped("\x01\x02 what is this? \xff\xfe" + std::string(100, 'x'),
                 "does not begin with HTTP/2");
}

TEST_F(ForeignTest, Http1IsDropped) {
  expect_dropped("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "does not begin with HTTP/2");
}

TEST_F(ForeignTest, AWordThatOnlyBeginsLikeHttp2IsDropped) {
  expect_dropped("PRX", "does not begin with HTTP/2");
}

TEST_F(ForeignTest, TlsOnThePlainPortIsDropped) {
  const std::string client_hello("\x16\x03\x01\x00\x2a\x01\x00\x00\x26\x03\x03", 11);
  expect_dropped(client_hello + std::string(36, 'r'), "begins with TLS; this port has none");
}

TEST_F(ForeignTest, WhoOnlyLooksWhetherThePortIsOpenIsNotTold) {
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(RawSocket(address()).connected());
  EXPECT_TRUE(eventually([&] { return server_->stats().connections.open <= 1; }));
  EXPECT_EQ(faults_.counts().refused, 0u);
  EXPECT_TRUE(log_lines().empty());
}

TEST_F(ForeignTest, AGreetingMayComeByteByByte) {
  RawSocket socket(address());
  for (const char byte : http2::hello() + frame(Frame::kPing, 0, 0, "12345678")) {
    ASSERT_TRUE(socket.send({&byte, 1}));
    clock_.sleep_until(clock_.now() + std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(socket.read_until("12345678"));
  EXPECT_EQ(faults_.counts().refused, 0u);
}

// False if the server closes the connection before kFlood bytes of repeated `more` are sent.
bool sends(RawSocket& socket, const std::string& more) {
  for (std::size_t sent = 0; sent < kFlood; sent += more.size()) {
    if (!socket.send(more)) return false;
  }
  return true;
}

TEST_F(BadConnectionTest, AFourGigabyteHeaderStringTakesNoMemory) {
  const long before = resident_mib();
  RawSocket socket(address());
  // A literal header whose name claims 2^32 - 1 bytes, which never come.
  const std::string claim("\x00\x7f\x80\xff\xff\xff\x0f", 7);
  ASSERT_TRUE(socket.send(http2::hello() + frame(Frame::kHeaders, http2::kEndHeaders, 1, claim)));
  socket.read_until_closed();
  expect_little_more_than(before);
  expect_serves();
}

TEST_F(BadConnectionTest, VarintsPaddedWithZeroesAreDropped) {
  RawSocket socket(address());
  const std::string padded = std::string("\x00\x7f", 2) + std::string(1000, '\x80');
  ASSERT_TRUE(socket.send(http2::hello() + frame(Frame::kHeaders, http2::kEndHeaders, 1, padded)));
  socket.read_until_closed();
  expect_serves();
}

TEST_F(BadConnectionTest, HeadersSplitAnywhereAreStillHeaders) {
  RawSocket socket(address());
  const std::string headers = http2::request_headers();
  std::string bytes = http2::hello() + frame(Frame::kHeaders, 0, 1, headers.substr(0, 1));
  for (std::size_t i = 1; i + 1 < headers.size(); ++i) {
    bytes += frame(Frame::kContinuation, 0, 1, headers.substr(i, 1));
  }
  bytes += frame(Frame::kContinuation, http2::kEndHeaders, 1, headers.substr(headers.size() - 1));
  bytes += frame(Frame::kData, http2::kEndStream, 1, http2::message_prefix(0));
  ASSERT_TRUE(socket.send(bytes));
  EXPECT_TRUE(socket.read_until("first message"));  // an empty message is an acknowledgement
}

TEST_F(BadConnectionTest, StrangePseudoHeadersDoNotAbort) {
  for (const std::string& headers :
       {header(":method", "POST") + header(":scheme", "x") + header(":path", kGenerateMethod) +
            header("te", "x") + header("content-type", "application/grpc"),
        header("te", "x"), header(":scheme", "x"), header(":nonsense", "x"), std::string()}) {
    RawSocket socket(address());
    socket.send(http2::hello() +
                frame(Frame::kHeaders, http2::kEndHeaders | http2::kEndStream, 1, headers));
    // Answered or dropped: a ping's echo, or the end of the connection, shows that the server is
    // done.
    socket.send(frame(Frame::kPing, 0, 0, "12345678"));
    socket.read_until("12345678");
  }
  expect_serves();
}

// CVE-2023-1428: gRPC aborted when it logged values of too long headers that it could not print.
TEST_F(BadConnectionTest, StrangeValuesAmongTooManyHeadersDoNotAbort) {
  const std::string padding = repeat(header("x-padding", std::string(100, 'p')), 120);
  for (const std::string& strange :
       {header("te", "x"), header(":scheme", "x"), header("grpclb_client_stats", "x")}) {
    for (const std::string& headers : {strange, http2::request_headers() + strange}) {
      RawSocket socket(address());
      socket.send(
          http2::hello() +
          frame(Frame::kHeaders, http2::kEndHeaders | http2::kEndStream, 1, headers + padding) +
          frame(Frame::kPing, 0, 0, "12345678"));
      socket.read_until("12345678");
    }
  }
  expect_serves();
}

// gRPC 1.51 closes the whole connection, although only one of its streams exceeded the limit.
TEST_F(BadConnectionTest, HeadersOverTheLimitMakeNoCallAndEndTheirConnectionOnly) {
  RawSocket socket(address());
  const std::string headers =
      http2::request_headers() + repeat(header("x-padding", std::string(100, 'p')), 200);
  // gRPC enforces the limit after a peer has acknowledged it: 8192 in its SETTINGS.
  ASSERT_TRUE(socket.send(http2::hello()));
  ASSERT_TRUE(socket.read_until(std::string("\x00\x06\x00\x00\x20\x00", 6)));
  ASSERT_TRUE(
      socket.send(frame(Frame::kSettings, http2::kAck, 0, "") +
                  frame(Frame::kHeaders, 0, 1, headers.substr(0, 16000)) +
                  frame(Frame::kContinuation, http2::kEndHeaders, 1, headers.substr(16000)) +
                  frame(Frame::kPing, 0, 0, "12345678")));
  EXPECT_TRUE(socket.read_until("metadata size exceeds limit"));
  socket.read_until_closed();
  EXPECT_EQ(server_->stats().calls_open, 1u) << "the bystander's";
  expect_serves();
}

// The limit does not hold for a peer that does not acknowledge it; its bytes are bounded all the
// same.
TEST_F(BadConnectionTest, HeadersOfAPeerThatAcknowledgesNoLimitAreBounded) {
  const long before = resident_mib();
  RawSocket socket(address());
  ASSERT_TRUE(socket.send(http2::hello()));
  const std::string headers =
      http2::request_headers() + repeat(header("x-padding", std::string(100, 'p')), 100);
  for (std::uint32_t stream = 1; stream < 100'000; stream += 2) {
    if (!socket.send(frame(Frame::kHeaders, http2::kEndHeaders, stream, headers))) break;
  }
  EXPECT_EQ(server_->stats().connections.refused, 1u) << "the peer is dropped";
  expect_little_more_than(before);
  socket.read_until_closed();
}

// Streams are reset faster than gRPC ends them: the storm's address has all calls that it may have.
TEST_F(BadConnectionTest, AStormOfResetStreamsIsDroppedAndOthersAreServedMeanwhile) {
  std::atomic<bool> over{false};
  bool dropped = false;
  std::thread storm([this, &dropped, &over] {
    RawSocket socket(address(), "127.0.0.2");
    socket.send(http2::hello());
    std::size_t sent = 0;
    // Four thousand streams reach the bound. Forty thousand short ones would keep a slow machine's
    // cores from the others for longer than these wait.
    const std::string headers =
        http2::request_headers() + repeat(header("x-padding", std::string(100, 'p')), 4);
    for (std::uint32_t stream = 1; sent < kFlood && !dropped; stream += 2) {
      const std::string reset = frame(Frame::kHeaders, http2::kEndHeaders, stream, headers) +
                                frame(Frame::kReset, 0, stream, std::string("\0\0\0\x08", 4));
      sent += reset.size();
      dropped = !socket.send(reset);
    }
    over = true;
  });
  do {
    expect_serves();
  } while (!over && !HasFailure());
  storm.join();
  EXPECT_TRUE(dropped) << "after what an unauthenticated peer may send";
  EXPECT_EQ(server_->stats().connections.refused, 1u);
  expect_serves();
}

TEST_F(BadConnectionTest, EndlessContinuationsAreDroppedAndTakeNoMemory) {
  const long before = resident_mib();
  RawSocket socket(address());
  ASSERT_TRUE(socket.send(http2::hello() + frame(Frame::kHeaders, 0, 1, http2::request_headers())));
  const std::string more =
      frame(Frame::kContinuation, 0, 1, repeat(header("x-padding", std::string(100, 'p')), 100));
  EXPECT_FALSE(sends(socket, more)) << "the peer is dropped";
  EXPECT_EQ(server_->stats().connections.refused, 1u);
  expect_little_more_than(before);
  expect_serves();
}

// CVE-2023-33953: gRPC 1.51 keeps an incomplete string far beyond its limit, and parses it again
// from its beginning with each frame.
TEST_F(BadConnectionTest, ALargeHeaderStringThatReallyComesIsDroppedAndTakesLittleMemory) {
  const long before = resident_mib();
  RawSocket socket(address());
  // A literal header "x" whose value claims 127 + 2^28 - 128 bytes.
  const std::string claim("\x00\x01x\x7f\x80\xff\xff\x7f", 8);
  ASSERT_TRUE(socket.send(http2::hello() + frame(Frame::kHeaders, 0, 1, claim)));
  EXPECT_FALSE(sends(socket, frame(Frame::kContinuation, 0, 1, std::string(16384, 'p'))))
      << "the peer is dropped";
  EXPECT_EQ(server_->stats().connections.refused, 1u);
  expect_little_more_than(before);
  expect_serves();
}

TEST_F(BadConnectionTest, ConnectionsThatAbortAtOnceHarmNobody) {
  for (int i = 0; i < 500; ++i) {
    RawSocket socket(address());
    EXPECT_TRUE(socket.connected());
  }
  expect_serves();
}

TEST_F(BadConnectionTest, AFloodOfPingsIsToldToCalmDown) {
  RawSocket socket(address());
  socket.send(http2::hello());
  for (int i = 0; i < 100 && socket.send(frame(Frame::kPing, 0, 0, "12345678")); ++i) {
  }
  EXPECT_THAT(socket.read_until_closed(), HasSubstr("too_many_pings"));
  expect_serves();
}

// --- silence ----------------------------------------------------------------------------------

class SilentPeerTest : public ServerTest {
 protected:
  SilentPeerTest() { rpc_options_.open_timeout = std::chrono::milliseconds(200); }
};

TEST_F(SilentPeerTest, AMessageThatNeverCompletesTimesOut) {
  RawSocket socket(address());
  ASSERT_TRUE(socket.send(
      http2::hello() + frame(Frame::kHeaders, http2::kEndHeaders, 1, http2::request_headers()) +
      frame(Frame::kData, 0, 1, http2::message_prefix(0xffffffffu) + "only this")));
  EXPECT_TRUE(socket.read_until("no Open came"));
  expect_serves();
}

class StalledReaderTest : public ServerTest {
 protected:
  StalledReaderTest() {
    scheduler_options_.run_ahead = 1u << 20;
    rpc_options_.max_waiting_messages = 190;  // of the 196 that the answer takes
  }
};

// The reader gives gRPC no flow-control window: nothing can be written to it.
TEST_F(StalledReaderTest, AReaderThatDoesNotReadLosesItsSession) {
  RawSocket socket(address());
  const std::string no_window("\x00\x04\x00\x00\x00\x00", 6);  // INITIAL_WINDOW_SIZE = 0
  Open long_answer = honest_open();
  long_answer.end_position = 250;  // far from complete when the queue is full
  const std::string open = serialize(EdgeMessage{0, 0, long_answer});
  ASSERT_TRUE(
      socket.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(Frame::kSettings, 0, 0, no_window) +
                  frame(Frame::kHeaders, http2::kEndHeaders, 1, http2::request_headers()) +
                  frame(Frame::kData, 0, 1,
                        http2::message_prefix(static_cast<std::uint32_t>(open.size())) + open)));
  // The stream ends with RST_STREAM, which needs no window: its header and stream id.
  EXPECT_TRUE(socket.read_until(std::string("\x00\x00\x04\x03\x00\x00\x00\x00\x01", 9)));
  EXPECT_EQ(server_->stats().stalled, 1u);
  // Its session ends and its KV can be reused. The other client's session, which does read,
  // completes.
  EXPECT_TRUE(eventually([&] { return engine_->stats().sessions_open == 0; }));
  const SchedulerStats stats = engine_->stats();
  EXPECT_EQ(stats.finished_error, 1u);
  EXPECT_EQ(stats.finished_length, 1u);
  EXPECT_EQ(stats.texts_kept, 2u);
  expect_serves();
}

class DeadReaderTest : public ServerTest {
 protected:
  DeadReaderTest() { rpc_options_.farewell_timeout = std::chrono::seconds(1); }
};

// Its last message can never be written: earlier the call stayed open as long as the connection.
TEST_F(DeadReaderTest, AReaderThatDoesNotTakeTheLastWordsLosesItsCall) {
  RawSocket socket(address());
  const std::string no_window("\x00\x04\x00\x00\x00\x00", 6);  // INITIAL_WINDOW_SIZE = 0
  const std::string open = serialize(EdgeMessage{0, 0, honest_open()});
  const std::string message = http2::message_prefix(static_cast<std::uint32_t>(open.size())) + open;
  ASSERT_TRUE(socket.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
                          frame(Frame::kSettings, 0, 0, no_window) +
                          frame(Frame::kHeaders, http2::kEndHeaders, 1, http2::request_headers()) +
                          frame(Frame::kData, 0, 1, message) + frame(Frame::kData, 0, 1, message)));
  EXPECT_TRUE(eventually([&] { return faults_.counts().refused > 0; }));
  EXPECT_EQ(server_->stats().calls_open, 2u) << "the bystander's, and the one that cannot end";
  EXPECT_TRUE(eventually([&] { return server_->stats().calls_open == 1; }))
      << "though the connection stands";
}

}  // namespace
}  // namespace outrider
