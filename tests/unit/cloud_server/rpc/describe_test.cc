// Describe: a target's description, before a prompt is written for it.
// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

const TargetDescription& description() {
  static const TargetDescription kDescription = {
      .model_name = "toy",
      .templates = {{"default", std::string(100 << 10, 'x')}},
      .bos = "<s>",
      .template_hash = std::string(64, 'e')};
  return kDescription;
}

class DescribeTest : public ServerTest {
 protected:
  DescribeTest() { rpc_options_.description = serialize(description()); }
};

TEST_F(DescribeTest, TellsWhatTheTargetIs) {
  RemoteVerifier verifier({.server = address()});
  const auto told = verifier.describe({});
  ASSERT_TRUE(told.ok()) << told.status().to_string();
  EXPECT_EQ(*told, description());
  EXPECT_EQ(verifier.described_bytes().messages_up, 1u);
  EXPECT_EQ(verifier.described_bytes().payload_down, serialize(description()).size());
}

// So an edge that requests the template while it loads its models is connected when it opens.
TEST_F(DescribeTest, ItsConnectionServesTheStreamThatFollows) {
  TestEdge edge(address());
  ASSERT_TRUE(edge.describe().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it would be closed by now
  EXPECT_EQ(server_->stats().connections.open, 2u) << "the bystander's, and this one";
  edge.open(honest_open());
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(server_->stats().connections.open, 2u);
}

TEST_F(DescribeTest, AnInterruptedCallEnds) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(RemoteVerifier({.server = address()}).describe(stop.get_token()).status().code(),
            StatusCode::kCancelled);
}

TEST_F(DescribeTest, NobodyThereIsAnErrorThatNamesTheAddress) {
  const Address nobody = address();
  EXPECT_EQ(bystander_->finish(), Status());
  bystander_.reset();
  server_->shutdown(Duration{0});
  const Status status = RemoteVerifier({.server = nobody}).describe({}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("cannot reach a server at " + nobody.to_string()));
}

class UnreadDescribeTest : public DescribeTest {
 protected:
  UnreadDescribeTest() { rpc_options_.unary_timeout = std::chrono::seconds(2); }
};

// See also UnreadMeasureTest.
TEST_F(UnreadDescribeTest, AReplyThatNobodyReadsGoesWithItsDeadline) {
  RawSocket socket(address());
  const std::string no_window("\x00\x04\x00\x00\x00\x00", 6);  // INITIAL_WINDOW_SIZE = 0
  const std::string headers =
      http2::header(":method", "POST") + http2::header(":scheme", "http") +
      http2::header(":path", kDescribeMethod) + http2::header(":authority", "localhost") +
      http2::header("te", "trailers") + http2::header("content-type", "application/grpc");
  ASSERT_TRUE(socket.send(
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2::frame(http2::Frame::kSettings, 0, 0, no_window) +
      http2::frame(http2::Frame::kHeaders, http2::kEndHeaders, 1, headers) +
      http2::frame(http2::Frame::kData, http2::kEndStream, 1, http2::message_prefix(0))));
  EXPECT_TRUE(eventually([&] { return server_->stats().calls_open == 2; }))
      << "the bystander's, and the one that cannot end";
  EXPECT_TRUE(eventually([&] { return server_->stats().calls_open == 1; }))
      << "though the connection stands";
}

class DescribeWithoutRoomTest : public DescribeTest {
 protected:
  DescribeWithoutRoomTest() { rpc_options_.max_calls = 1; }  // the bystander's
};

TEST_F(DescribeWithoutRoomTest, ObeysTheBoundOfCalls) {
  EXPECT_EQ(RemoteVerifier({.server = address()}).describe({}).status().code(),
            StatusCode::kResourceExhausted);
}

// Such as a server without a tokenizer, or an older one.
TEST_F(ServerTest, AServerWithoutADescriptionSaysSo) {
  EXPECT_EQ(RemoteVerifier({.server = address()}).describe({}).status().code(),
            StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace outrider
