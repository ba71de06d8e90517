// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <array>

#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/grpc_status.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

using StreamTest = ServerTest;
using testing::HasSubstr;

TEST_F(StreamTest, PlainCloudDecodingGivesTheTargetsText) {
  expect_serves();
}

TEST_F(StreamTest, ManySessionsAtOnceEachGetTheirOwnText) {
  std::array<std::unique_ptr<TestEdge>, 6> edges;
  const auto open_of = [this](std::size_t i) {
    Open open = honest_open();
    open.seed = i;
    open.sampling.temperature = 0.8f;
    return open;
  };
  for (std::size_t i = 0; i < edges.size(); ++i) {
    edges[i] = std::make_unique<TestEdge>(address());
    edges[i]->open(open_of(i));
  }
  for (std::size_t i = 0; i < edges.size(); ++i) {
    EXPECT_EQ(edges[i]->finish(), Status());
    EXPECT_EQ(edges[i]->answer(), right_answer(open_of(i))) << "edge " << i;
  }
}

class BookedStreamTest : public ServerTest {
 protected:
  BookedStreamTest() {
    scheduler_options_.on_session_end = [this](const SessionRecord& record) {
      const std::lock_guard lock(mu_);
      records_.push_back(record);
    };
  }
  ~BookedStreamTest() override {  // while the records that it writes to exist
    bystander_.reset();
    server_.reset();
    engine_.reset();
  }
  // The id in the record of the session that this call opened.
  std::string id_of_session(const std::string& sent) {
    {
      const std::lock_guard lock(mu_);
      records_.clear();
    }
    TestEdge edge(address());
    edge.name_request(sent);
    edge.open(honest_open());
    EXPECT_EQ(edge.finish(), Status());
    return next_record().request_id;
  }
  // Written when the stream's last message is sent.
  SessionRecord next_record() {
    SessionRecord record;
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mu_);
      if (!records_.empty()) record = records_.front();
      return !records_.empty();
    }));
    return record;
  }
  std::vector<SessionRecord> records_;
};

TEST_F(BookedStreamTest, TheRequestsIdStandsInTheBooksAndABadOneDoesNot) {
  EXPECT_EQ(id_of_session("robot-7:turn.12"), "robot-7:turn.12");
  EXPECT_EQ(id_of_session(""), "");
  EXPECT_EQ(id_of_session("two words"), "");
  EXPECT_EQ(id_of_session(std::string(129, 'a')), "");
}

TEST_F(BookedStreamTest, TheBooksHaveTheBytesOfTheWholeSession) {
  TestEdge edge(address());
  edge.open(honest_open());
  EXPECT_EQ(edge.finish(), Status());
  const LinkBytes sent = edge.link_bytes();
  const SessionRecord record = next_record();
  ASSERT_NE(record.traffic, nullptr);
  EXPECT_EQ(record.traffic->down(), sent.payload_down);
  EXPECT_LE(record.traffic->up(), sent.payload_up) << "the last acknowledgement may not be read";
  EXPECT_GT(record.traffic->up(), sent.payload_up / 2);
}

TEST_F(BookedStreamTest, ARefusalIsLoggedWithTheRequestsId) {
  TestEdge edge(address());
  edge.name_request("robot-7");
  Open open = honest_open();
  open.tokenizer_hash = "other";
  edge.open(open);
  EXPECT_FALSE(edge.finish().ok());
  const std::vector<std::string> lines = log_lines();
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.back(), HasSubstr("(request robot-7): "));
}

TEST_F(StreamTest, NodesThatAgreeComeBackInOneVerdict) {
  Open open = honest_open();
  open.policy.pass_policy = PassPolicy::kOnRequest;
  const std::vector<TokenId> right = right_answer(open);
  TestEdge edge(address());
  edge.open(open);
  edge.await<Verdict>();  // pass 0: the first token
  ASSERT_EQ(edge.answer(), std::vector<TokenId>(right.begin(), right.begin() + 1));
  const Position end = kPrefixLength + 1;
  edge.send(Grow{1, end, {{right[1], 0, 255}, {right[2], 1, 255}, {right[3], 1, 255}}}, end);
  EXPECT_EQ(edge.await<Started>().last_id, 3u);
  const Verdict verdict = edge.await<Verdict>();
  EXPECT_EQ(verdict.position, end);
  EXPECT_EQ(verdict.tokens, std::vector<TokenId>(right.begin() + 1, right.begin() + 5));
  EXPECT_EQ(verdict.rows, 4u);
  edge.send(Cancel{});
  EXPECT_EQ(edge.await<Usage>().reason, FinishReason::kCancelled);
}

// The bystander is paused at its run-ahead limit, so the spoiled pass is this edge's.
TEST_F(StreamTest, LogitsThatNameNoTokenEndTheSessionAndAreLogged) {
  for (Position end = kPrefixLength; end < kPrefixLength + Position{kRunAhead};) {
    const Verdict verdict = bystander_->await<Verdict>();
    end = verdict.position + static_cast<Position>(verdict.tokens.size());
  }
  model_.spoil_next_passes(1);
  TestEdge edge(address());
  edge.open(honest_open());
  const Status status = edge.finish();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  // The log has the details; the edge gets their number in the log.
  EXPECT_THAT(status.message(), HasSubstr("failure 1"));
  EXPECT_THAT(status.message(), testing::Not(HasSubstr("logit")));
  EXPECT_EQ(faults_.counts().failed, 1u);
  EXPECT_THAT(log_lines(),
              testing::Contains(testing::AllOf(HasSubstr("failure 1"),
                                               HasSubstr("every logit is NaN or -infinity"))));
  expect_serves();
}

// See spread_delay().
void expect_spread(std::optional<Duration> told, Duration least) {
  ASSERT_TRUE(told.has_value());
  EXPECT_GE(*told, least);
  EXPECT_LE(*told, least * 3 / 2);
}

// libtorch's out-of-memory error (model.h): the session ends, and may be retried.
TEST_F(StreamTest, ADeviceWithoutMemoryForAPassIsNoFinalError) {
  for (Position end = kPrefixLength; end < kPrefixLength + Position{kRunAhead};) {
    const Verdict verdict = bystander_->await<Verdict>();
    end = verdict.position + static_cast<Position>(verdict.tokens.size());
  }
  model_.fail_next_passes(1);
  RawCall call{{serialize(EdgeMessage{0, 0, honest_open()})}};
  const grpc::Status status = run_raw(address(), call);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  expect_spread(retry_delay(status), scheduler_options_.retry_after);
  EXPECT_THAT(status.error_message(), HasSubstr("short of memory for this pass"));
  EXPECT_EQ(engine_->stats().failed_in_a_row, 0u) << "the device is not lost";
  expect_serves();
}

TEST_F(StreamTest, CountsBytesOnTheLink) {
  TestEdge edge(address());
  const Open open = honest_open();
  edge.open(open);
  ASSERT_EQ(edge.finish(), Status());
  const std::vector<TokenId>& answer = edge.answer();
  const LinkBytes bytes = edge.link_bytes();
  EXPECT_EQ(bytes.messages_up, 1 + answer.size());  // Open, and one ack for each verdict
  EXPECT_GT(bytes.payload_up, serialize(EdgeMessage{0, 0, open}).size());
  EXPECT_EQ(bytes.framed_up(), bytes.payload_up + kFramingBytes * bytes.messages_up);
  EXPECT_GE(bytes.messages_down, 2 + 2 * answer.size());  // Opened, Usage; Started and Verdict
}

// An answer that is soon complete.
Open short_open(Open open) {
  open.end_position = static_cast<Position>(open.prefix.size()) + 2;
  return open;
}

class PatientServerTest : public ServerTest {
 protected:
  PatientServerTest() { rpc_options_.close_timeout = kPatience * 2; }
};

TEST_F(PatientServerTest, AnEdgeClosesItsHalfAtTheEndWhichTheServerWaitsFor) {
  TestEdge edge(address());
  edge.open(short_open(honest_open()));
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_TRUE(eventually([&] { return server_->stats().calls_open == 1; })) << "the bystander's";
}

class ImpatientServerTest : public ServerTest {
 protected:
  ImpatientServerTest() { rpc_options_.close_timeout = std::chrono::milliseconds(300); }
};

TEST_F(ImpatientServerTest, AnEdgeThatDoesNotCloseItsHalfGetsTheEndLater) {
  const TimePoint begin = clock_.now();
  RawCall call{{serialize(EdgeMessage{0, 0, short_open(honest_open())})}};
  EXPECT_TRUE(run_raw(address(), call).ok());
  EXPECT_GE(clock_.now() - begin, rpc_options_.close_timeout);
}

TEST_F(PatientServerTest, ARefusalDoesNotWait) {
  RawCall call{{serialize(EdgeMessage{0, 0, AckOnly{}})}};
  EXPECT_EQ(run_raw(address(), call).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

class FullServerTest : public ServerTest {
 protected:
  FullServerTest() {
    scheduler_options_.max_concurrent_sessions = 1;  // the bystander's
    scheduler_options_.retry_after = std::chrono::milliseconds(1250);
  }
};

TEST_F(FullServerTest, RefusesWithADelayThatAnyGrpcClientUnderstands) {
  RawCall call{{serialize(EdgeMessage{0, 0, honest_open()})}};
  const grpc::Status status = run_raw(address(), call);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  expect_spread(retry_delay(status), scheduler_options_.retry_after);

  TestEdge edge(address());
  edge.open(honest_open());
  const Notice notice = edge.await<Notice>();
  EXPECT_EQ(notice.kind, Notice::Kind::kOverloaded);
  expect_spread(notice.retry_after, scheduler_options_.retry_after);
  EXPECT_NE(notice.retry_after, retry_delay(status)) << "or all would come back together";
  EXPECT_EQ(edge.finish().code(), StatusCode::kResourceExhausted);
}

class BoundedCallsTest : public ServerTest {
 protected:
  BoundedCallsTest() {
    rpc_options_.max_calls_per_peer = 3;  // one is the bystander's
    rpc_options_.open_timeout = std::chrono::seconds(2);
  }
};

// Calls that never send anything cost memory too.
TEST_F(BoundedCallsTest, CallsOfOneAddressAreBoundedBeforeTheySayAnything) {
  RawSocket socket(address());
  std::string calls = http2::hello();
  for (const std::uint32_t stream : {1u, 3u, 5u, 7u}) {
    calls +=
        http2::frame(http2::Frame::kHeaders, http2::kEndHeaders, stream, http2::request_headers());
  }
  ASSERT_TRUE(socket.send(calls));
  EXPECT_TRUE(socket.read_until("as many open calls as allowed, 3"));
  RawCall call{{serialize(EdgeMessage{0, 0, honest_open()})}};
  const grpc::Status status = run_raw(address(), call);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  expect_spread(retry_delay(status), std::chrono::seconds(2));
  // The silent calls end at their time limit, and there is room again.
  EXPECT_TRUE(eventually([&] { return server_->stats().calls_open == 1; }));
  expect_serves();
}

TEST_F(StreamTest, DrainingWarnsSessionsLetsThemFinishAndRefusesNewOnes) {
  server_->set_serving(false);
  engine_->drain();
  EXPECT_EQ(bystander_->await<Notice>().kind, Notice::Kind::kReconnectSoon);
  TestEdge late(address());
  late.open(honest_open());
  EXPECT_EQ(late.finish().code(), StatusCode::kUnavailable);
  // TearDown sees the bystander finish with the right text.
}

// grpc.health.v1: HealthCheckRequest{service}, HealthCheckResponse{status}: 1 serving, 2 not.
std::string health_status(const Address& server, const std::string& service) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel =
      grpc::CreateCustomChannel(server.to_string(), grpc::InsecureChannelCredentials(), arguments);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  grpc::CompletionQueue queue;
  const std::string request = std::string("\x0a") + static_cast<char>(service.size()) + service;
  auto call = grpc::GenericStub(channel).PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                                          to_buffer(request), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status.ok() ? to_bytes(answer) : status.error_message();
}

TEST_F(StreamTest, HealthServiceFollowsTheDrain) {
  const std::string serving("\x08\x01");
  const std::string not_serving("\x08\x02");
  EXPECT_EQ(health_status(address(), kServiceName), serving);
  EXPECT_EQ(health_status(address(), ""), serving);
  server_->set_serving(false);
  EXPECT_EQ(health_status(address(), kServiceName), not_serving);
  EXPECT_EQ(health_status(address(), ""), not_serving);
}

TEST_F(StreamTest, ATakenPortIsNamedWithItsRemedy) {
  RpcServerOptions options;
  options.listen = address();
  Result<std::unique_ptr<RpcServer>> second = RpcServer::start(*engine_, faults_, options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(),
              testing::AllOf(HasSubstr(address().to_string()), HasSubstr("Address already in use"),
                             HasSubstr("another host or port")));
}

TEST_F(StreamTest, AnUnknownHostIsNamedWithItsRemedy) {
  RpcServerOptions options;
  options.listen = {"no-such-host.invalid", 0};
  Result<std::unique_ptr<RpcServer>> server = RpcServer::start(*engine_, faults_, options);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.status().message(), HasSubstr("no-such-host.invalid:0"));
}

TEST_F(StreamTest, ShutdownCutsWhatDoesNotFinish) {
  server_->shutdown(Duration{0});
  const Status status = bystander_->finish();
  const std::vector<TokenId>& answer = bystander_->answer();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status.to_string();
  const std::vector<TokenId> right = right_answer(honest_open());
  ASSERT_LE(answer.size(), right.size());
  EXPECT_TRUE(std::equal(answer.begin(), answer.end(), right.begin()));
  bystander_.reset();
}

}  // namespace
}  // namespace outrider
