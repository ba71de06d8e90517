// Whole streams under a fake clock and link, by the thousand: random edges that keep PROTOCOL
// against the real scheduler and sessions, both sides held against the reference model after every
// event. A failure prints its seed; run one seed with --gtest_filter and OUTRIDER_SIM_SEED=n.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "tests/sim/scripted_edge.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

// An answer takes a few seconds of this world's time; nothing in it waits for a minute.
constexpr Duration kDeadlock = std::chrono::minutes(5);

struct SimulatedRun {
  explicit SimulatedRun(std::uint64_t seed)
      : simulation(seed),
        random(simulation.random()),
        model(static_cast<std::int32_t>(random.between(2, 12))),
        exits(model),
        has_exits(random.chance(0.7)),
        server(simulation, model, server_options(), {}) {}

  SchedulerOptions server_options() {
    SchedulerOptions options;
    options.max_concurrent_sessions = static_cast<std::uint32_t>(random.between(1, 3));
    options.kept_caches = static_cast<std::uint32_t>(random.below(3));
    options.prefill_chunk = static_cast<std::uint32_t>(random.between(1, 8));
    options.max_rows = static_cast<std::uint32_t>(random.between(1, 33));
    options.run_ahead = static_cast<std::uint32_t>(random.between(1, 32));
    if (has_exits) options.exits = &exits;
    options.report_queue = random.chance(0.5) ? ReportQueue::kPriority : ReportQueue::kFifo;
    options.exit_score = random.chance(0.5) ? ExitScore::kCalibrated : ExitScore::kMaxSoftmax;
    options.idle_timeout = std::chrono::hours(1);  // so that a deadlock is not healed by it
    return options;
  }

  ScriptedEdge::Script script() {
    ScriptedEdge::Script script;
    Open& open = script.open;
    for (std::uint64_t left = random.between(1, 12); left > 0; --left) {
      open.prefix.push_back(
          static_cast<TokenId>(random.below(static_cast<std::uint64_t>(model.info().vocab_size))));
    }
    open.end_position = static_cast<Position>(open.prefix.size()) + random.between(1, 24);
    open.sampling.temperature = random.chance(0.5) ? 0.0f : 1.0f;
    open.seed = random.below(1000);
    if (random.chance(0.2)) open.stop_ids = {0};
    open.policy.pass_policy = random.chance(0.4) ? PassPolicy::kEager : PassPolicy::kOnRequest;
    open.policy.patience = random.between(Duration{0}, from_ms(20));
    open.policy.wants_exits = random.chance(0.7);
    script.guess_right = 0.25 * static_cast<double>(random.between(0, 4));
    script.guesses = random.chance(0.8);
    script.think = random.chance(0.7) ? from_ms(15) : from_ms(300);
    script.cancel = random.chance(0.1) ? 0.02 : 0.0;
    script.cut = random.chance(0.3) ? 0.03 : 0.0;
    return script;
  }

  void add_edge() {
    const Duration longest = random.chance(0.3) ? from_ms(1) : from_ms(80);
    links.push_back(std::make_unique<SimLink>(
        simulation, server, SimLink::Delays{Duration{0}, random.between(Duration{1}, longest)},
        SimLink::Delays{Duration{0}, random.between(Duration{1}, longest)}));
    edges.push_back(std::make_unique<ScriptedEdge>(simulation, *links.back(), model,
                                                   has_exits ? &exits : nullptr, script()));
  }

  // Runs until every edge is done; what is wrong, or nothing.
  std::string run() {
    for (std::int64_t left = random.between(1, 3); left > 0; --left) add_edge();
    server.observe = [this](StreamId stream, const VerifySession& session) {
      for (const auto& edge : edges) edge->check_server(stream, session);
    };
    for (const auto& edge : edges) edge->begin();
    const TimePoint deadline = simulation.now() + kDeadlock;
    while (true) {
      bool done = true;
      for (const auto& edge : edges) {
        if (!edge->failure().empty()) return edge->failure();
        done &= edge->done();
      }
      if (done) break;
      if (!simulation.step(deadline)) return "deadlock";
    }
    for (const auto& edge : edges) {
      if (!edge->cancelled() && edge->text() != edge->expected()) return "the text is not whole";
    }
    return {};
  }

  Simulation simulation;
  SimRandom& random;
  ToyModel model;
  ToyExits exits;
  bool has_exits;
  SimServer server;
  std::vector<std::unique_ptr<SimLink>> links;
  std::vector<std::unique_ptr<ScriptedEdge>> edges;
};

TEST(VerifySim, RandomEdgesGetTheTargetsTextAndBothSidesAlwaysAgree) {
  constexpr std::uint64_t kSeeds = 3000;
  std::uint64_t first = 1;
  std::uint64_t last = kSeeds;
  if (const char* only = std::getenv("OUTRIDER_SIM_SEED")) {
    first = last = std::strtoull(only, nullptr, 10);
  }
  int reports = 0;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SimulatedRun run(seed);
    ASSERT_EQ(run.run(), "") << "OUTRIDER_SIM_SEED=" << seed;
    for (const auto& edge : run.edges) reports += edge->reports();
  }
  if (first != last) {
    EXPECT_GT(reports, 10'000);
  }
}

}  // namespace
}  // namespace outrider
