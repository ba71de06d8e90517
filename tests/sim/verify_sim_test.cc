// Whole streams under a fake clock and link, by the thousand: adversaries that keep the
// protocol against the real scheduler and sessions, both sides held against the reference model
// after every event, with the faults of FaultInjector. A failure prints its seed; run one seed with
// --gtest_filter and OUTRIDER_SIM_SEED=n. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "tests/sim/checked_adversary.h"
#include "tests/sim/fault_injector.h"
#include "tests/sim/seeds.h"
#include "tests/sim/toy_draft.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

// An answer takes a few seconds of simulated time; nothing in it waits for a minute.
constexpr Duration kDeadlock = std::chrono::minutes(5);

struct SimulatedRun {
  explicit SimulatedRun(std::uint64_t seed)
      : simulation(seed),
        random(simulation.random()),
        model(static_cast<std::int32_t>(random.between(2, 12))),
        draft(model, 0.5f * static_cast<float>(random.below(5)), random.between(10, 80)),
        exits(model),
        has_exits(random.chance(0.7)),
        server(
            simulation, model, server_options(),
            [this](const PassRowCounts&) { return random.between(from_ms(1), from_ms(20)); }, 1,
            [this](std::size_t) { return random.between(Duration{0}, from_ms(5)); }),
        faults(simulation, server, links) {}

  SchedulerOptions server_options() {
    SchedulerOptions options;
    options.max_concurrent_sessions = static_cast<std::uint32_t>(random.between(1, 6));
    options.kv.kept = static_cast<std::uint32_t>(random.below(3));
    options.max_queued_requests = static_cast<std::uint32_t>(random.below(4));
    options.prefill_chunk = static_cast<std::uint32_t>(random.between(1, 64));
    if (random.chance(0.4)) {
      // From one session's pages up.
      bounded_memory = true;
      model.set_kv_bytes_per_position(1);
      options.kv.max_bytes = KvPages::kRows * random.between(5, 8);
    }
    for (std::uint64_t left = random.chance(0.3) ? random.between(30, 140) : 0; left > 0; --left) {
      beginning.push_back(any_token());
    }
    options.max_rows = static_cast<std::uint32_t>(random.between(1, 33));
    options.max_batched_rows = static_cast<std::uint32_t>(random.between(1, 100));
    options.prefill_budget = static_cast<std::uint32_t>(random.between(1, 8));
    options.run_ahead = static_cast<std::uint32_t>(random.between(1, 32));
    options.logits_on_demand = random.chance(0.5);
    if (has_exits) options.exits = &exits;
    options.report_queue = static_cast<ReportQueue>(random.below(3));
    options.exit_score = random.chance(0.5) ? ExitScore::kCalibrated : ExitScore::kMaxSoftmax;
    options.draft_source = static_cast<DraftSource>(random.below(4));
    if (uses_model(options.draft_source)) options.draft_model = &draft;
    options.drafts_in_passes = random.chance(0.5);
    if (options.draft_model != nullptr && bounded_memory && random.chance(0.7)) {
      draft.set_kv_bytes_per_position(1);
      options.kv.max_bytes *= 2;
    }
    options.idle_timeout = std::chrono::hours(1);  // so that a deadlock is not healed by it
    return options;
  }

  TokenId any_token() {
    return static_cast<TokenId>(random.below(static_cast<std::uint64_t>(model.info().vocab_size)));
  }

  CheckedAdversary::Plan plan() {
    CheckedAdversary::Plan plan;
    Open& open = plan.open;
    open.prefix = beginning;
    if (!beginning.empty()) open.prefix.resize(random.between(1, open.prefix.size()));
    for (std::uint64_t left = random.between(1, 12); left > 0; --left) {
      open.prefix.push_back(any_token());
    }
    open.end_position = static_cast<Position>(open.prefix.size()) + random.between(1, 24);
    open.sampling.temperature = random.chance(0.5) ? 0.0f : 1.0f;
    open.seed = random.below(1000);
    if (random.chance(0.2)) open.stop_ids = {0};
    if (model.info().vocab_size >= 3 && random.chance(0.4)) {
      open.set_settings(drawn_settings(random, model.info().vocab_size),
                        static_cast<Position>(open.prefix.size()));
      if (open.settings.constraint.asks()) open.stop_ids = {0};
    }
    open.policy.pass_policy = random.chance(0.4) ? PassPolicy::kEager : PassPolicy::kOnRequest;
    open.policy.patience = random.between(Duration{0}, from_ms(20));
    open.policy.wants_exits = random.chance(0.7);
    open.accepts_server_nodes = random.chance(0.7);
    plan.guess_right = 0.25 * static_cast<double>(random.between(0, 4));
    plan.guesses = random.chance(0.8);
    plan.think = random.chance(0.7) ? from_ms(15) : from_ms(300);
    plan.cancel = random.chance(0.1) ? 0.02 : 0.0;
    plan.cut = random.chance(0.3) ? 0.03 : 0.0;
    plan.may_be_preempted = bounded_memory;
    return plan;
  }

  void add_edge() {
    const Duration longest = random.chance(0.3) ? from_ms(1) : from_ms(80);
    SimLink::Options options{.up = {Duration{0}, random.between(Duration{1}, longest)},
                             .down = {Duration{0}, random.between(Duration{1}, longest)}};
    if (random.chance(0.15)) options.bytes_per_s = static_cast<double>(random.between(2000, 20000));
    if (random.chance(0.5)) options.max_waiting = static_cast<std::size_t>(random.between(3, 12));
    links.push_back(std::make_unique<SimLink>(simulation, server, options));
    edges.push_back(std::make_unique<CheckedAdversary>(simulation, *links.back(), model,
                                                       has_exits ? &exits : nullptr, plan()));
  }

  // Runs until every edge is done; what is wrong, or nothing.
  std::string run() {
    for (std::int64_t left = random.between(1, 6); left > 0; --left) add_edge();
    server.observe = [this](StreamId stream, const VerifySession& session) {
      for (const auto& edge : edges) edge->check_server(stream, session);
    };
    for (const auto& edge : edges) edge->begin();
    faults.begin();
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
  SeededRandom& random;
  ToyModel model;
  ToyDraft draft;
  ToyExits exits;
  bool has_exits;
  bool bounded_memory = false;
  std::vector<TokenId> beginning = {};  // of all prompts, more or less of it
  SimServer server;
  FaultInjector::Links links;
  FaultInjector faults;
  std::vector<std::unique_ptr<CheckedAdversary>> edges;
};

TEST(VerifySim, RandomEdgesGetTheTargetsTextAndBothSidesAlwaysAgree) {
  const SimSeeds seeds = sim_seeds(3000);
  std::uint64_t reports = 0;
  std::uint64_t shared = 0;  // passes, as sessions count them, that another session had too
  std::uint64_t preempted = 0, cached = 0, server_tokens = 0;
  InjectedFaults faults;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    SimulatedRun run(seed);
    ASSERT_EQ(run.run(), "") << "OUTRIDER_SIM_SEED=" << seed;
    for (const auto& edge : run.edges) {
      reports += static_cast<std::uint64_t>(edge->reports());
      server_tokens += edge->server_tokens();
    }
    faults += run.faults.counts();
    const SchedulerStats stats = run.server.scheduler().stats();
    shared += stats.passes - stats.device_passes;
    preempted += stats.preemptions;
    cached += stats.cached_tokens;
  }
  if (seeds.single) return;
  const std::uint64_t count = seeds.count();
  EXPECT_GT(reports, 3 * count);
  EXPECT_GT(shared, count) << "everybody rides alone";
  EXPECT_GT(preempted, count / 60);
  EXPECT_GT(cached, count * 10);
  EXPECT_GT(server_tokens, count) << "the server's drafts are of no use";
  expect_harsh(faults, count);
}

}  // namespace
}  // namespace outrider
