// A real server on a free port over a toy model, and edges of three kinds: a correct one, one that
// sends raw bytes over gRPC, one that writes to the socket. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cloud_server/faults/fault_log.h"
#include "cloud_server/rpc/server.h"
#include "common/base/clock.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "edge_client/verifiers/remote.h"
#include "tests/sim/toy_model.h"

namespace outrider {

// Longer than any wait of a correct test.
inline constexpr std::chrono::seconds kPatience{120};

// A correct edge. Events wait until a test reads them.
class TestEdge final {
 public:
  explicit TestEdge(const Address& server) : verifier_({server}) {}
  explicit TestEdge(RemoteOptions options) : verifier_(std::move(options)) {}

  Result<TargetDescription> describe() { return verifier_.describe({}); }
  // For the next open().
  void name_request(const std::string& id) { verifier_.name_request(id); }
  void open(const Open& open);
  void send(decltype(EdgeMessage::body) body, Position acked = 0);
  // The next event, or a failure of the test.
  VerifierEvent next();
  // Skips to the next event of this type; fails if the stream ends before.
  template <typename Message>
  Message await();
  // Acknowledges every verdict until the stream ends.
  Status finish();
  // All tokens of the verdicts so far.
  const std::vector<TokenId>& answer() const { return answer_; }
  // Usage as counted by the server; valid after finish().
  const Usage& usage() const { return usage_; }
  void stop() { verifier_.stop(); }
  LinkBytes link_bytes() const { return verifier_.link_bytes(); }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<VerifierEvent> events_;
  std::vector<TokenId> answer_;
  Usage usage_;
  Position end_ = 0;         // of the text, once a verdict came
  RemoteVerifier verifier_;  // last: its destructor ends the events
};

template <typename Message>
Message TestEdge::await() {
  while (true) {
    VerifierEvent event = next();
    if (const auto* ended = std::get_if<StreamEnded>(&event)) {
      ADD_FAILURE() << "stream ended: " << ended->status.to_string();
      return Message{};
    }
    auto& message = std::get<ServerMessage>(event);
    if (auto* wanted = std::get_if<Message>(&message)) return *std::move(wanted);
  }
}

// How a raw call behaves.
struct RawCall {
  std::vector<std::string> messages;  // sent in order
  bool half_close = false;            // after them
  bool gzip = false;
  std::vector<std::string> answers = {};  // out: what the server sent
};

// Runs the call to its end.
grpc::Status run_raw(const Address& server, RawCall& call);

class ServerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kRunAhead = 16;
  static constexpr Position kPrefixLength = 3;
  static constexpr Position kEnd = 100;

  // Subclasses change options before SetUp() runs.
  ServerTest();
  void SetUp() override;
  // The bystander's session must still give the right text after everything that the test did.
  void TearDown() override;

  // Greedy, eager, without nodes: plain cloud decoding.
  Open honest_open() const;
  std::vector<TokenId> right_answer(const Open& open) const;
  // Expects the right text of a new session.
  void expect_serves();
  const Address& address() const { return server_->address(); }
  std::vector<std::string> log_lines();

  std::mutex mu_;
  std::vector<std::string> lines_;  // before the server, which writes to it until its end
  FaultLog faults_{[this](const std::string& line) {
    const std::lock_guard lock(mu_);
    lines_.push_back(line);
  }};

  ToyModel model_;
  SystemClock clock_;
  SchedulerOptions scheduler_options_;
  RpcServerOptions rpc_options_;
  std::unique_ptr<VerifyEngine> engine_;
  std::unique_ptr<RpcServer> server_;
  // Opened before the test's body and paused at the run-ahead limit, because it does not
  // acknowledge.
  std::unique_ptr<TestEdge> bystander_;
};

}  // namespace outrider
