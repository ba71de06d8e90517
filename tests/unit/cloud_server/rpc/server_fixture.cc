// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cloud_server/rpc/server_fixture.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <future>

#include "proto/byte_buffer.h"
#include "proto/grpc_order.h"

namespace outrider {
namespace {

// Writes its messages and reads everything.
class RawReactor final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RawReactor(const Address& server, RawCall& call) : call_(call) {
    if (call.gzip) context_.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ = grpc::CreateCustomChannel(server.to_string(), grpc::InsecureChannelCredentials(),
                                         arguments);
    grpc::GenericStub(channel_).PrepareBidiStreamingCall(&context_, kGenerateMethod,
                                                         grpc::StubOptions(), this);
    release_to_grpc(&read_buffer_);
    StartRead(&read_buffer_);
    write_next();
    StartCall();
  }

  grpc::Status wait() { return done_->get_future().get(); }

 private:
  void OnReadDone(bool ok) override {
    acquire_from_grpc(&read_buffer_);
    if (!ok) return;
    call_.answers.push_back(to_bytes(read_buffer_));
    release_to_grpc(&read_buffer_);
    StartRead(&read_buffer_);
  }
  void OnWriteDone(bool ok) override {
    acquire_from_grpc(&write_buffer_);
    if (ok) write_next();
  }
  void OnDone(const grpc::Status& status) override {
    acquire_from_grpc(&read_buffer_);
    acquire_from_grpc(&write_buffer_);
    const std::shared_ptr<std::promise<grpc::Status>> done = done_;  // outlives this reactor
    done->set_value(status);
  }

  void write_next() {
    if (next_ < call_.messages.size()) {
      write_buffer_ = to_buffer(call_.messages[next_++]);
      release_to_grpc(&write_buffer_);
      StartWrite(&write_buffer_);
    } else if (call_.half_close) {
      release_to_grpc(&write_buffer_);
      StartWritesDone();
    }
  }

  RawCall& call_;
  std::size_t next_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  grpc::ByteBuffer read_buffer_;
  grpc::ByteBuffer write_buffer_;
  std::shared_ptr<std::promise<grpc::Status>> done_ =
      std::make_shared<std::promise<grpc::Status>>();
};

}  // namespace

void TestEdge::open(const Open& open) {
  verifier_.start(1, [this](FromVerifier event) {
    const std::lock_guard lock(mu_);
    events_.push_back(std::move(event.event));
    changed_.notify_all();
  });
  send(open);
}

void TestEdge::send(decltype(EdgeMessage::body) body, Position acked) {
  verifier_.send({acked, 0, std::move(body)});
}

VerifierEvent TestEdge::next() {
  std::unique_lock lock(mu_);
  if (!changed_.wait_for(lock, kPatience, [this] { return !events_.empty(); })) {
    ADD_FAILURE() << "no event came";
    return StreamEnded{deadline_exceeded("no event came")};
  }
  VerifierEvent event = std::move(events_.front());
  events_.pop_front();
  if (const auto* message = std::get_if<ServerMessage>(&event)) {
    if (const auto* usage = std::get_if<Usage>(message)) usage_ = *usage;
    if (const auto* verdict = std::get_if<Verdict>(message)) {
      answer_.insert(answer_.end(), verdict->tokens.begin(), verdict->tokens.end());
      end_ = verdict->position + static_cast<Position>(verdict->tokens.size());
    }
  }
  return event;
}

Status TestEdge::finish() {
  if (end_ > 0) send(AckOnly{}, end_);  // the events that await() skipped
  while (true) {
    VerifierEvent event = next();
    if (const auto* ended = std::get_if<StreamEnded>(&event)) return ended->status;
    if (std::holds_alternative<Verdict>(std::get<ServerMessage>(event))) send(AckOnly{}, end_);
  }
}

grpc::Status run_raw(const Address& server, RawCall& call) {
  return RawReactor(server, call).wait();
}

ServerTest::ServerTest() {
  scheduler_options_.tokenizer_hash = "70f1";
  scheduler_options_.run_ahead = kRunAhead;
  scheduler_options_.price_rows = false;  // by times of this machine, whatever else it does
  rpc_options_.listen = {"127.0.0.1", 0};
}

void ServerTest::SetUp() {
  engine_ = std::make_unique<VerifyEngine>(model_, scheduler_options_, clock_);
  Result<std::unique_ptr<RpcServer>> server = RpcServer::start(*engine_, faults_, rpc_options_);
  ASSERT_TRUE(server.ok()) << server.status().to_string();
  server_ = *std::move(server);
  bystander_ = std::make_unique<TestEdge>(address());
  bystander_->open(honest_open());
  bystander_->await<Opened>();
}

void ServerTest::TearDown() {
  if (bystander_ != nullptr) {
    EXPECT_EQ(bystander_->finish(), Status());
    EXPECT_EQ(bystander_->answer(), right_answer(honest_open()));
  }
  bystander_.reset();
  server_.reset();  // before the objects of a subclass that it uses
}

Open ServerTest::honest_open() const {
  Open open;
  open.tokenizer_hash = scheduler_options_.tokenizer_hash;
  open.prefix = {1, 2, 3};
  open.end_position = kEnd;
  open.policy.pass_policy = PassPolicy::kEager;
  return open;
}

std::vector<TokenId> ServerTest::right_answer(const Open& open) const {
  std::vector<TokenId> text =
      model_.decode(open.prefix, open.end_position, open.sampling, open.seed);
  text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(open.prefix.size()));
  return text;
}

void ServerTest::expect_serves() {
  TestEdge edge(address());
  Open open = honest_open();
  open.seed = 11;
  open.sampling.temperature = 1.0f;
  edge.open(open);
  const Status ended = edge.finish();
  EXPECT_TRUE(ended.ok()) << ended.message();
  EXPECT_EQ(edge.answer(), right_answer(open));
}

std::vector<std::string> ServerTest::log_lines() {
  const std::lock_guard lock(mu_);
  return lines_;
}

}  // namespace outrider
