// The life of a server in this process, on a toy device. SPDX-License-Identifier: Apache-2.0
#include "cloud_server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <thread>

#include "common/engine/model/emulated/paced_model.h"
#include "tests/sim/toy_model.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {
namespace {

using testing::HasSubstr;

ServerOptions toy_options() {
  ServerOptions options;
  options.scheduler.tokenizer_hash = "70f1";
  options.scheduler.run_ahead = 16;
  options.rpc.listen = {"127.0.0.1", 0};
  options.http = Address{"127.0.0.1", 0};
  return options;
}

Open toy_open() {
  Open open;
  open.tokenizer_hash = "70f1";
  open.prefix = {1, 2, 3};
  open.end_position = 100;
  open.policy.pass_policy = PassPolicy::kEager;
  return open;
}

// A target whose passes take so long.
LoadedTarget paced_target(const char* pass_ms, Clock& clock) {
  return {.model = std::make_unique<PacedModel>(std::make_unique<ToyModel>(),
                                                *PaceCurve::parse(pass_ms), clock),
          .tokenizer_hash = "70f1"};
}

TEST(Server, APassThatHangsShowsInItsHealth) {
  SystemClock clock;
  const LoadedTarget target = paced_target("8000", clock);
  ServerOptions options = toy_options();
  options.scheduler.pass_limit = std::chrono::milliseconds(200);
  const auto server = *Server::start(target, options);
  const Address& http = *server->http_address();
  EXPECT_THAT(http_get(http, "/health/live"), HasSubstr("200 OK"));
  EXPECT_THAT(http_get(http, "/health"), HasSubstr("200 OK"));
  TestEdge edge(server->rpc_address());
  edge.open(toy_open());
  edge.await<Started>();
  EXPECT_TRUE(eventually(
      [&] { return http_get(http, "/health/live").find("HTTP/1.1 503") != std::string::npos; }));
  EXPECT_THAT(http_get(http, "/health/ready"), HasSubstr("HTTP/1.1 503"));
}

TEST(Server, ADrainingServerIsAliveAndNotReadyAndLetsItsSessionsFinish) {
  block_signals();
  SystemClock clock;
  const LoadedTarget target = paced_target("20", clock);
  const auto server = *Server::start(target, toy_options());
  std::thread running([&] { EXPECT_EQ(server->run(), Status()); });
  TestEdge edge(server->rpc_address());
  edge.open(toy_open());
  edge.await<Verdict>();
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(eventually([&] {
    const std::string ready = http_get(*server->http_address(), "/health/ready");
    return ready.find("HTTP/1.1 503") != std::string::npos;
  }));
  EXPECT_THAT(http_get(*server->http_address(), "/health/live"), HasSubstr("200 OK"));
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.answer().size(), 97u);
  running.join();
}

// Like a persistent CUDA error: every later call of the process fails.
TEST(Server, ADeviceThatFailsThreePassesInARowEndsTheServerAndFreesItsEdges) {
  LoadedTarget target{.model = std::make_unique<ToyModel>(), .tokenizer_hash = "70f1"};
  auto& model = static_cast<ToyModel&>(*target.model);
  const auto server = *Server::start(target, toy_options());
  std::promise<Status> served;
  std::thread running([&] { served.set_value(server->run()); });
  const Address& address = server->rpc_address();
  const Open open = toy_open();
  TestEdge resting(address);  // at its run-ahead limit, because it acknowledges nothing
  resting.open(open);
  for (Position end = 0; end < 3 + 16;) {
    const Verdict verdict = resting.await<Verdict>();
    end = verdict.position + static_cast<Position>(verdict.tokens.size());
  }
  model.break_next_passes(3);
  for (int i = 0; i < 3; ++i) {
    TestEdge edge(address);
    edge.open(open);
    EXPECT_EQ(edge.finish().code(), StatusCode::kInternal);
  }
  const VerifierEvent last = resting.next();
  ASSERT_TRUE(std::holds_alternative<StreamEnded>(last));
  EXPECT_EQ(std::get<StreamEnded>(last).status.code(), StatusCode::kUnavailable);
  const Status status = served.get_future().get();
  running.join();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("failed 3 passes in a row"));
}

}  // namespace
}  // namespace outrider
