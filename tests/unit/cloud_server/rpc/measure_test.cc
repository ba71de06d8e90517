// Measure: bytes in both directions, its limits, and the edge's result.
// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <future>
#include <set>
#include <thread>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/token_file.h"
#include "cloud_server/rpc/shell_state.h"
#include "edge_client/verifiers/link_speed.h"
#include "emulation/link/link.h"
#include "emulation/path/link_spec.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

class MeasureTest : public ServerTest {
 protected:
  Result<LinkSpeed> measured(const Address& server) const {
    return measure_link_speed({.server = server}, stop_.get_token());
  }
  std::stop_source stop_;
};

TEST_F(MeasureTest, BytesThatTakeNoTimeAreALowerBound) {
  const Result<LinkSpeed> speed = measured(address());
  ASSERT_TRUE(speed.ok()) << speed.status().to_string();
  EXPECT_GT(speed->up.bytes_per_second, 0);
  EXPECT_GT(speed->down.bytes_per_second, 0);
}

// A busy machine makes a link appear slower, never faster.
TEST_F(MeasureTest, ALinkIsNotTakenForFasterThanItIs) {
  const auto profile = parse_link("ethernet+delay=10ms+up.rate=2mbit+down.rate=8mbit+queue=64kb");
  ASSERT_TRUE(profile.ok()) << profile.status().to_string();
  const std::unique_ptr<Link> link =
      *start_link(*profile, {.seed = 1, .kind = LinkKind::kModelled});
  const Result<LinkSpeed> speed = measured(*link->route(address()));
  ASSERT_TRUE(speed.ok()) << speed.status().to_string();
  EXPECT_LT(speed->up.bytes_per_second, 1.15 * 2e6 / 8);
  EXPECT_GT(speed->up.bytes_per_second, 0.2 * 2e6 / 8);
  EXPECT_LT(speed->down.bytes_per_second, 1.15 * 8e6 / 8);
  EXPECT_GT(speed->down.bytes_per_second, speed->up.bytes_per_second);
  EXPECT_FALSE(speed->up.least);
}

TEST_F(MeasureTest, AnInterruptedMeasurementEnds) {
  stop_.request_stop();
  EXPECT_EQ(measured(address()).status().code(), StatusCode::kCancelled);
}

TEST_F(MeasureTest, NobodyThereIsAnError) {
  const Address nobody = address();
  EXPECT_EQ(bystander_->finish(), Status());
  bystander_.reset();
  server_->shutdown(Duration{0});
  EXPECT_EQ(measured(nobody).status().code(), StatusCode::kUnavailable);
}

class MeasureWithoutRoomTest : public MeasureTest {
 protected:
  MeasureWithoutRoomTest() { rpc_options_.max_calls = 1; }  // the bystander's
};

TEST_F(MeasureWithoutRoomTest, HasNoRoomForMeasurements) {
  const Result<LinkSpeed> speed = measured(address());
  EXPECT_EQ(speed.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(speed.status().message(), HasSubstr("open calls"));
}

// --- peers that do not read, or stop -------------------------------------------------------------

class UnreadMeasureTest : public MeasureTest {
 protected:
  static constexpr std::size_t kMost = std::size_t{4} << 20;
  UnreadMeasureTest() {
    rpc_options_.max_unary_bytes = kMost;
    rpc_options_.unary_timeout = std::chrono::seconds(2);
  }

  static std::string headers(std::uint32_t stream, const std::string& more = "") {
    std::string path = http2::header(":path", kMeasureMethod);
    return http2::frame(http2::Frame::kHeaders, http2::kEndHeaders, stream,
                        http2::header(":method", "POST") + http2::header(":scheme", "http") + path +
                            http2::header(":authority", "localhost") +
                            http2::header("te", "trailers") +
                            http2::header("content-type", "application/grpc") + more);
  }
  static std::string hello_without_window() {
    const std::string no_window("\x00\x04\x00\x00\x00\x00", 6);  // INITIAL_WINDOW_SIZE = 0
    return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" +
           http2::frame(http2::Frame::kSettings, 0, 0, no_window);
  }
  // Open calls without the bystander's.
  std::uint64_t calls() const { return server_->stats().calls_open - 1; }
  // Waits until nothing changes any more and `done`.
  template <typename Done>
  void await(Done done) {
    EXPECT_TRUE(eventually(done));
  }
};

TEST_F(UnreadMeasureTest, UnreadRepliesAreBoundedAndGoWithTheirDeadline) {
  constexpr int kConnections = 4;
  constexpr int kStreams = 50;
  const std::string request = serialize_measure_request(kMaxMeasuredBytes, 0);
  std::deque<RawSocket> sockets;
  for (int i = 0; i < kConnections; ++i) {
    std::string bytes = hello_without_window();
    for (int k = 0; k < kStreams; ++k) {
      const auto stream = static_cast<std::uint32_t>(2 * k + 1);
      bytes +=
          headers(stream) +
          http2::frame(http2::Frame::kData, http2::kEndStream, stream,
                       http2::message_prefix(static_cast<std::uint32_t>(request.size())) + request);
    }
    ASSERT_TRUE(sockets.emplace_back(address()).send(bytes));
  }
  // With replies of 256 KiB, so many fit; all other calls are over.
  constexpr std::uint64_t kFit = kMost / kMaxMeasuredBytes;
  await([&] { return faults_.counts().refused >= kConnections * kStreams - kFit; });
  await([&] { return calls() <= kFit; });
  EXPECT_GT(calls(), 0u);
  EXPECT_THAT(log_lines().at(0), HasSubstr("bytes in transit"));
  await([&] { return calls() == 0; });
  EXPECT_TRUE(measured(address()).ok()) << "there is room again";
}

TEST_F(UnreadMeasureTest, RequestsThatNeverEndAreBoundedAndGoWithTheirDeadline) {
  RawSocket socket(address());
  std::string bytes = http2::hello();
  for (std::uint32_t stream = 1; stream < 60; stream += 2) {
    bytes += headers(stream) + http2::frame(http2::Frame::kData, 0, stream,
                                            http2::message_prefix(200'000) + "only this");
  }
  ASSERT_TRUE(socket.send(bytes));
  await([&] { return calls() == kMost / kMaxMeasuredBytes; });
  await([&] { return faults_.counts().refused == 30 - kMost / kMaxMeasuredBytes; });
  await([&] { return calls() == 0; });
  EXPECT_TRUE(measured(address()).ok()) << "there is room again";
}

// Many connections of one tenant, behind a proxy, which has one address for all.
class UnreadKeyedMeasureTest : public UnreadMeasureTest {
 protected:
  UnreadKeyedMeasureTest() {
    rpc_options_.max_calls_per_peer = 0;
    rpc_options_.authenticator = &authenticator_;
    rpc_options_.tenants = &tenants_;
  }
  void SetUp() override {  // without a bystander, who has no key
    engine_ = std::make_unique<VerifyEngine>(model_, scheduler_options_, clock_);
    Result<std::unique_ptr<RpcServer>> server = RpcServer::start(*engine_, faults_, rpc_options_);
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }
  const NewToken alice_ = *new_token("alice");
  const NewToken bob_ = *new_token("bob");
  const NewToken carol_ = *new_token("carol");
  Tenants tenants_;
  Authenticator authenticator_{tenants_, false};
};

TEST_F(UnreadKeyedMeasureTest, UnreadRepliesOfATenantAreBoundedWhateverItsLimits) {
  constexpr int kConnections = 3;
  constexpr int kStreams = 20;
  constexpr std::uint64_t kFit = kMost / kMaxMeasuredBytes;
  const std::string request = serialize_measure_request(kMaxMeasuredBytes, 0);
  tenants_.replace(
      parse_tokens(alice_.line + "\n" + bob_.line + " sessions=1\n" + carol_.line + "\n"));
  std::deque<RawSocket> sockets;
  for (int i = 0; i < 2 * kConnections; ++i) {
    const std::string key = "Bearer " + (i % 2 == 0 ? alice_ : bob_).token;
    std::string bytes = hello_without_window();
    for (int k = 0; k < kStreams; ++k) {
      const auto stream = static_cast<std::uint32_t>(2 * k + 1);
      bytes +=
          headers(stream, http2::header("authorization", key)) +
          http2::frame(http2::Frame::kData, http2::kEndStream, stream,
                       http2::message_prefix(static_cast<std::uint32_t>(request.size())) + request);
    }
    ASSERT_TRUE(sockets.emplace_back(address()).send(bytes));
  }
  // All of it together is less than the bound for all tenants.
  await([&] { return faults_.counts().refused >= 2 * (kConnections * kStreams - kFit); });
  await([&] { return server_->stats().calls_open <= 2 * kFit; });
  EXPECT_THAT(log_lines().at(0), HasSubstr("this key's tenant has as many bytes in transit"));
  const auto may_measure = [this](const NewToken& key) {
    return measure_link_speed({.server = address(), .token = key.token}, stop_.get_token()).ok();
  };
  EXPECT_TRUE(may_measure(carol_)) << "others are not concerned";
  await([&] { return server_->stats().calls_open == 0; });
  EXPECT_TRUE(may_measure(alice_) && may_measure(bob_)) << "there is room again";
}

class BoundedMeasureTest : public MeasureTest {
 protected:
  static constexpr std::uint32_t kCalls = 20;
  BoundedMeasureTest() { rpc_options_.max_calls_per_peer = kCalls; }

  // Begins calls without completing them, until so many are open with the bystander's.
  void begin_calls(RawSocket& socket, std::uint32_t until) {
    for (; calls_ < until; ++calls_) {
      ASSERT_TRUE(socket.send(http2::frame(http2::Frame::kHeaders, http2::kEndHeaders,
                                           2 * calls_ + 1, http2::request_headers())));
    }
    while (server_->stats().calls_open < until) std::this_thread::yield();
  }
  std::uint32_t calls_ = 1;
};

TEST_F(BoundedMeasureTest, TakesThePlacesOfItsAddress) {
  RawSocket socket(address());
  ASSERT_TRUE(socket.send(http2::hello()));
  begin_calls(socket, kCalls / 2);
  EXPECT_TRUE(measured(address()).ok());
  while (server_->stats().calls_open > kCalls / 2) std::this_thread::yield();  // it has ended
  begin_calls(socket, kCalls);
  const Result<LinkSpeed> speed = measured(address());
  EXPECT_EQ(speed.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(speed.status().message(), HasSubstr("this address has as many open calls"));
}

// Else all whom the bound refuses would come back at once.
TEST_F(MeasureWithoutRoomTest, RefusalsForTheBoundOfCallsTellDelaysThatDiffer) {
  std::set<Duration> delays;
  for (int i = 0; i < 4; ++i) {
    TestEdge edge(address());
    edge.open(honest_open());
    delays.insert(edge.await<Notice>().retry_after);
    EXPECT_EQ(edge.finish().code(), StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(delays.size(), 4u);
  EXPECT_GE(*delays.begin(), AuthFailureLimiter::kRetryInterval);
  EXPECT_LE(*delays.rbegin(), AuthFailureLimiter::kRetryInterval * 3 / 2);
}

TEST(CallBounds, OneCannotTakeMoreThanHisShareNorAllMoreThanThereIs) {
  CallBounds bounds("bytes", 10, 15);
  EXPECT_TRUE(bounds.enter("a", "this address", 10).ok());
  EXPECT_EQ(bounds.enter("a", "this address", 1).message(),
            "this address has as many bytes as allowed, 10");
  EXPECT_EQ(bounds.enter("b", "this address", 6).message(),
            "this server has as many bytes as allowed");
  EXPECT_TRUE(bounds.enter("b", "this address", 5).ok());
  bounds.leave("a", 4);
  EXPECT_TRUE(bounds.enter("a", "this address", 4).ok());
  bounds.leave("unknown", 4);
  EXPECT_FALSE(bounds.enter("c", "this address", 1).ok());
}

}  // namespace
}  // namespace outrider
