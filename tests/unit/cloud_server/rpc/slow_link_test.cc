// A prefix that takes longer than the time limit of an Open, over a real connection.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/opening.h"
#include "emulation/link/link.h"
#include "emulation/path/link_spec.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

constexpr Position kPrefixLength = 75'000;  // of as many bytes
constexpr Position kEnd = kPrefixLength + 5;
constexpr std::chrono::seconds kOpenTimeout{1};

Open open_of(const std::vector<TokenId>& prefix) {
  Open open;
  open.tokenizer_hash = "70f1";
  open.prefix_length = static_cast<Position>(prefix.size());
  open.end_position = kEnd;
  open.policy.pass_policy = PassPolicy::kEager;
  return open;
}

// The link has 200 kbit/s: the Open takes three seconds, and has one second. The following tokens
// are 300 KB, which take twelve seconds, where the limit is ten.
TEST(SlowLink, ALongPrefixOpensAsLongAsItsPiecesKeepComing) {
  ToyModel model(8, kEnd);
  SystemClock clock;
  FaultLog faults;
  SchedulerOptions scheduler;
  scheduler.tokenizer_hash = "70f1";
  scheduler.open_timeout = kOpenTimeout;
  VerifyEngine engine(model, scheduler, clock);
  RpcServerOptions rpc;
  rpc.listen = {"127.0.0.1", 0};
  rpc.open_timeout = kOpenTimeout;
  const std::unique_ptr<RpcServer> server = *RpcServer::start(engine, faults, rpc);
  const std::unique_ptr<Link> link =
      *start_link(*parse_link("ethernet+up.rate=200kbit+down.rate=8mbit+queue=64kb"),
                  {.seed = 1, .kind = LinkKind::kModelled});
  std::vector<TokenId> prefix;
  for (Position i = 0; i < kPrefixLength; ++i) prefix.push_back(static_cast<TokenId>(i * i % 7));

  const TimePoint start = clock.now();
  TestEdge edge(*link->route(server->address()));
  edge.open(open_of(prefix));
  for (Prefix& piece : prefix_pieces(prefix)) edge.send(std::move(piece));
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_GT(clock.now() - start, 2 * kOpenTimeout) << "a condition that never occurred is no pass";
  const std::vector<TokenId> text = model.decode(prefix, kEnd, {}, 0);
  EXPECT_EQ(edge.answer(), std::vector<TokenId>(text.begin() + kPrefixLength, text.end()));
}

}  // namespace
}  // namespace outrider
