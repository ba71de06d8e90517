// The life of a server in this process, on a toy device. SPDX-License-Identifier: Apache-2.0
#include "cloud_server/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/sim/toy_model.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

// As a CUDA error that sticks: every later call of the process fails.
TEST(Serve, ADeviceThatFailsThreePassesInARowEndsTheServerAndFreesItsEdges) {
  ToyModel model;
  ServeOptions options;
  options.scheduler.tokenizer_hash = "70f1";
  options.scheduler.run_ahead = 16;
  options.rpc.listen = {"127.0.0.1", 0};
  std::promise<Address> listening;
  std::promise<Status> served;
  std::thread server([&] {
    served.set_value(
        serve(model, options, [&](const Listening& now) { listening.set_value(now.rpc); }));
  });
  const Address address = listening.get_future().get();
  Open open;
  open.tokenizer_hash = "70f1";
  open.prefix = {1, 2, 3};
  open.end_position = 100;
  open.policy.pass_policy = PassPolicy::kEager;
  TestEdge resting(address);  // at its run-ahead limit, as it acknowledges nothing
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
  server.join();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), testing::HasSubstr("failed 3 passes in a row"));
}

}  // namespace
}  // namespace outrider
