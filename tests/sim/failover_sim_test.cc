// A link that is cut and restored at every commit of an answer, in every manner: this device's
// target goes on, the server takes over again, and the text is the target's own, whole, with no
// token lost or repeated. A failure prints its seed; run one with OUTRIDER_SIM_SEED=n, and other
// than the usual number of seeds with OUTRIDER_SIM_SEEDS=n. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "bench/sim/sim_link.h"
#include "bench/sim/sim_probe.h"
#include "bench/sim/sim_server.h"
#include "tests/sim/checked_edge.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

constexpr Duration kDeadlock = std::chrono::hours(1);

// kSilence: half open; the edge is never told.
enum class Cut { kReset, kSilence, kKilledServer };
constexpr int kCuts = 3;

// An edge with a server and a target of its own.
struct TwoTargets {
  TwoTargets(std::uint64_t seed, Position context, Duration online_pass, Duration offline_pass,
             const SimLink::Delays& delays)
      : simulation(seed),
        random(simulation.random()),
        vocab(static_cast<std::int32_t>(random.between(4, 12))),
        model(vocab, context),
        device_model(vocab, context),
        server(simulation, model, options(4),
               [online_pass](const PassRowCounts&) { return online_pass; }),
        device(simulation, device_model, options(256),
               [offline_pass](const PassRowCounts&) { return offline_pass; }),
        link(simulation, server, {.up = delays, .down = delays}),
        in_process(simulation, device, {}),
        probe(simulation, link) {}

  // A device reads a text layer by layer, in one pass; so many tokens of it.
  static SchedulerOptions options(std::uint32_t prefill_chunk) {
    SchedulerOptions options;
    options.tokenizer_hash = "toy";
    options.prefill_chunk = prefill_chunk;
    options.idle_timeout = std::chrono::hours(2);
    return options;
  }

  CheckedEdge::Plan plan(Position tokens) {
    CheckedEdge::Plan plan;
    for (std::int64_t left = random.between(1, 20); left > 0; --left) {
      plan.prompt.push_back(static_cast<TokenId>(random.below(static_cast<std::uint64_t>(vocab))));
    }
    plan.decoding.strategy = static_cast<Strategy>(random.below(4));
    plan.decoding.tokenizer_hash = "toy";
    plan.decoding.token_bound = vocab;
    plan.decoding.sampling.temperature = 0.5f * static_cast<float>(random.below(3));
    plan.decoding.seed = random.below(1000);
    plan.decoding.end_position = static_cast<Position>(plan.prompt.size()) + tokens;
    plan.decoding.reconnect_timeout = std::chrono::minutes(30);
    plan.draft_context = model.info().max_positions;
    plan.step_takes = [](std::size_t) { return from_ms(4); };
    plan.failover = FailoverOptions{.fingerprint = model.info().fingerprint,
                                    .arithmetic_id = model.info().arithmetic_id,
                                    .replaced = {}};
    plan.offline = &in_process;
    plan.probe = &probe;
    return plan;
  }

  void cut(Cut how, Duration down) {
    link.partition_up(down);  // for new streams and probes
    link.partition_down(down);
    const Duration told =
        how == Cut::kSilence ? Duration::max() : random.between(Duration{0}, from_ms(50));
    link.cut(told, random.between(Duration{0}, from_ms(500)));
    if (how == Cut::kKilledServer) server.restart(down);
  }

  Simulation simulation;
  SimRandom& random;
  const std::int32_t vocab;
  ToyModel model;
  ToyModel device_model;
  SimServer server;
  SimServer device;
  SimLink link;
  SimLink in_process;
  SimProbe probe;
};

struct Totals {
  std::uint64_t cuts = 0;
  std::uint64_t failovers = 0;
  std::uint64_t handbacks = 0;
  std::uint64_t stops = 0;
};

// One answer whose link is cut as soon as `at` tokens are shown, and restored.
std::string cut_once(std::uint64_t seed, std::size_t at, Cut how, Totals& totals) {
  TwoTargets two(seed, 120, from_ms(15), from_ms(60), {from_ms(2), from_ms(25)});
  SimRandom& random = two.random;
  CheckedEdge::Plan plan = two.plan(static_cast<Position>(random.between(20, 60)));
  if (random.chance(0.2)) plan.decoding.stop_ids = {0};
  if (random.chance(0.2)) plan.stop_after = 1;
  plan.failover->failover_after = random.between(from_ms(200), from_ms(2000));
  plan.failover->handback_after = random.between(from_ms(50), from_ms(1000));
  if (random.chance(0.5)) plan.failover->standby_lag = random.between(1, 16);
  plan.failover->strict_target = random.chance(0.5);
  CheckedEdge edge(two.simulation, two.link, two.model, plan);
  edge.begin();
  const TimePoint deadline = two.simulation.now() + kDeadlock;
  bool is_cut = false;
  while (!edge.done()) {
    if (!edge.failure().empty()) return edge.failure();
    if (!is_cut && edge.shown().size() >= at) {
      is_cut = true;
      ++totals.cuts;
      const Duration down = random.between(from_ms(100), from_ms(4000));
      two.simulation.after(random.between(Duration{0}, from_ms(40)),
                           [&two, how, down] { two.cut(how, down); });
    }
    if (!two.simulation.step(deadline)) return "deadlock";
  }
  const Finish& finish = std::as_const(edge).finish();
  if (edge.shown() != edge.expected()) {
    return "the text differs; ended by " + finish.status.to_string();
  }
  totals.failovers += edge.failover().failovers;
  totals.handbacks += edge.failover().handbacks;
  totals.stops += finish.ending == Ending::kLength ? 0 : 1;
  return {};
}

TEST(FailoverSim, ACutAtAnyCommitLeavesTheTextWhole) {
  const char* only = std::getenv("OUTRIDER_SIM_SEED");
  const char* count = std::getenv("OUTRIDER_SIM_SEEDS");
  const std::uint64_t seeds = count != nullptr ? std::strtoull(count, nullptr, 10) : 20;
  constexpr std::size_t kPositions = 60;
  Totals totals;
  std::uint64_t seed = 0;
  for (std::uint64_t round = 0; round < seeds; ++round) {
    for (std::size_t at = 0; at < kPositions; ++at) {
      for (int how = 0; how < kCuts; ++how) {
        ++seed;
        if (only != nullptr && seed != std::strtoull(only, nullptr, 10)) continue;
        ASSERT_EQ(cut_once(seed, at, static_cast<Cut>(how), totals), "")
            << "OUTRIDER_SIM_SEED=" << seed;
      }
    }
  }
  if (only != nullptr) return;
  EXPECT_GT(totals.failovers, totals.cuts / 2) << "these cuts are too kind";
  EXPECT_GT(totals.handbacks, totals.cuts / 10) << "no server comes back in time";
  EXPECT_GT(totals.stops, totals.cuts / 10);
}

TEST(FailoverSim, AnEdgeWithoutANetworkAnswersAlone) {
  TwoTargets two(3, 120, from_ms(15), from_ms(60), {from_ms(2), from_ms(25)});
  two.server.restart(std::chrono::hours(10));
  CheckedEdge edge(two.simulation, two.link, two.model, two.plan(40));
  edge.begin();
  while (!edge.done() && two.simulation.step(two.simulation.now() + kDeadlock)) {
  }
  ASSERT_TRUE(edge.done());
  EXPECT_EQ(edge.shown(), edge.expected());
  EXPECT_EQ(edge.failover().failovers, 1u);
  EXPECT_EQ(edge.failover().handbacks, 0u);
}

constexpr Duration kPhase = std::chrono::seconds(2);
constexpr Duration kWhole = std::chrono::seconds(60);

// Tokens in 60 s over a link that is up and down for 2 s each.
enum class Which { kBoth, kServer, kDevice };

struct Pace {
  Duration online_pass;
  Duration offline_pass;
};

std::size_t tokens_while_flapping(const Pace& pace, Cut how, Which which) {
  const SimLink::Delays delays{from_ms(5), from_ms(6)};
  TwoTargets two(11, 3000, pace.online_pass, pace.offline_pass, delays);
  CheckedEdge::Plan plan = two.plan(2900);
  plan.decoding.strategy = Strategy::kAr;
  plan.decoding.reconnect_timeout = std::chrono::minutes(5);
  if (which == Which::kServer) plan.failover.reset();
  if (which == Which::kDevice) two.server.restart(std::chrono::hours(1));
  CheckedEdge edge(two.simulation, two.link, two.model, plan);
  const TimePoint began = two.simulation.now();
  for (Duration at = kPhase; at < kWhole && which != Which::kDevice; at += 2 * kPhase) {
    two.simulation.at(began + at, [&two, how] { two.cut(how, kPhase); });
  }
  edge.begin();
  while (!edge.done() && two.simulation.step(began + kWhole)) {
  }
  EXPECT_EQ(edge.failure(), "");
  EXPECT_TRUE(std::equal(edge.shown().begin(), edge.shown().end(), edge.expected().begin()));
  return edge.shown().size();
}

TEST(FailoverSim, AFlappingLinkCostsLittle) {
  const Pace paces[] = {{from_ms(20), from_ms(200)},
                        {from_ms(20), from_ms(60)},
                        {from_ms(40), from_ms(60)},
                        {from_ms(100), from_ms(60)}};
  for (const Pace& pace : paces) {
    for (int how = 0; how < kCuts; ++how) {
      const auto tokens = [&](Which which) {
        return tokens_while_flapping(pace, static_cast<Cut>(how), which);
      };
      const std::size_t best = std::max(tokens(Which::kServer), tokens(Which::kDevice));
      EXPECT_GE(static_cast<double>(tokens(Which::kBoth)), 0.9 * static_cast<double>(best))
          << "passes of " << to_ms(pace.online_pass) << " and " << to_ms(pace.offline_pass)
          << " ms, cut " << how << ": server " << tokens(Which::kServer) << ", device "
          << tokens(Which::kDevice);
    }
  }
}

}  // namespace
}  // namespace outrider
