// A link that is cut and restored at every commit of an answer, in every manner: this device's
// target goes on, the server takes over again, and the text is the target's own, whole, with no
// token lost or repeated. A failure prints its seed; run one with OUTRIDER_SIM_SEED=n
// (seeds.h). SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "tests/sim/checked_edge.h"
#include "tests/sim/seeds.h"
#include "tests/sim/sim_probe.h"
#include "tests/sim/toy_draft.h"
#include "tests/sim/toy_model.h"
#include "tests/sim/toy_text.h"

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
        server_draft(model, 0.5f * static_cast<float>(random.below(4))),
        server(simulation, model, server_options(),
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

  // It may draft itself, by look-up, by a model, by both.
  SchedulerOptions server_options() {
    SchedulerOptions online = options(4);
    online.draft_source = static_cast<DraftSource>(random.below(4));
    if (uses_model(online.draft_source)) online.draft_model = &server_draft;
    online.drafts_in_passes = random.chance(0.5);
    return online;
  }

  CheckedEdge::Plan plan(Position tokens) {
    CheckedEdge::Plan plan;
    for (std::int64_t left = random.between(1, 20); left > 0; --left) {
      plan.prompt.push_back(static_cast<TokenId>(random.below(static_cast<std::uint64_t>(vocab))));
    }
    plan.decoding.speculation.first.strategy = static_cast<Strategy>(random.below(4));
    plan.decoding.speculation.first.takes_turns = random.chance(0.2);
    plan.decoding.speculation.first.gamma = 4;
    plan.decoding.tokenizer_hash = "toy";
    plan.decoding.speculation.token_bound = vocab;
    plan.decoding.choice.sampling.temperature = 0.5f * static_cast<float>(random.below(3));
    plan.decoding.choice.seed = random.below(1000);
    if (random.chance(0.3)) {
      plan.decoding.top_logprobs = 2;
      plan.decoding.prompt_logprobs = random.chance(0.5);
    }
    if (random.chance(0.4)) plan.decoding.choice.settings = drawn_settings(random, vocab);
    if (plan.decoding.choice.settings.constraint.asks()) plan.decoding.stop_ids = {0};
    plan.decoding.speculation.end_position = static_cast<Position>(plan.prompt.size()) + tokens;
    plan.decoding.accepts_server_nodes = random.chance(0.8);
    plan.decoding.reconnect.timeout = std::chrono::minutes(30);
    plan.draft_context = model.info().max_positions;
    plan.step_takes = [](std::size_t) { return from_ms(4); };
    plan.failover = FailoverSetup{.options = {},
                                  .fingerprint = model.info().fingerprint,
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
  SeededRandom& random;
  const std::int32_t vocab;
  ToyModel model;
  ToyModel device_model;
  ToyDraft server_draft;
  SimServer server;
  SimServer device;
  SimLink link;
  SimLink in_process;
  SimProbe probe;
};

struct Totals {
  std::uint64_t cuts = 0;
  std::uint64_t failovers = 0;
  std::uint64_t failbacks = 0;
  std::uint64_t server_tokens = 0;  // nodes of the server's own, in answers that went over
  std::uint64_t stops = 0;
  std::uint64_t stop_strings = 0;
  std::uint64_t changes_within = 0;  // a character or a stop string
};

std::vector<std::string> some_stops(SeededRandom& random) {
  std::vector<std::string> stops;
  for (const std::string_view stop : kToyStops) {
    if (random.chance(0.3)) stops.emplace_back(stop);
  }
  return stops;
}

// One answer whose link is cut as soon as `at` tokens are shown, and restored.
std::string cut_once(std::uint64_t seed, std::size_t at, Cut how, Totals& totals) {
  TwoTargets two(seed, 120, from_ms(15), from_ms(60), {from_ms(2), from_ms(25)});
  SeededRandom& random = two.random;
  CheckedEdge::Plan plan = two.plan(static_cast<Position>(random.between(20, 60)));
  if (random.chance(0.2)) plan.decoding.stop_ids = {0};
  const std::vector<std::string> stops = some_stops(random);
  if (random.chance(0.7)) {
    plan.make_text = [stops] { return make_toy_text(stops); };
  } else if (random.chance(0.2)) {
    plan.stop_after = 1;
  }
  plan.failover->options.link.first_patience = random.between(from_ms(200), from_ms(2000));
  plan.failover->options.failback_after = random.between(from_ms(50), from_ms(1000));
  if (random.chance(0.5)) plan.failover->options.standby_lag = random.between(1, 16);
  plan.failover->options.strict_target = random.chance(0.5);
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
  if (edge.shown_text() != edge.expected_text()) return "the letters differ";
  if (edge.session().logprobs() != edge.expected_logprobs()) return "log-probabilities differ";
  if (edge.session().prompt_logprobs() != edge.expected_prompt_logprobs()) {
    return "log-probabilities of the prompt differ";
  }
  if (plan.make_text) {
    totals.stop_strings += finish.ending == Ending::kStopString ? 1 : 0;
    for (const std::size_t began : edge.streams_began_at()) {
      totals.changes_within += ends_within(std::span(edge.shown()).first(began), stops) ? 1 : 0;
    }
  }
  totals.failovers += edge.failover().failovers;
  totals.failbacks += edge.failover().failbacks;
  if (edge.failover().failovers > 0) {
    totals.server_tokens += edge.session().stats().num_server_tokens;
  }
  totals.stops += finish.ending == Ending::kLength ? 0 : 1;
  return {};
}

TEST(FailoverSim, ACutAtAnyCommitLeavesTheTextWhole) {
  constexpr std::uint64_t kPositions = 60;
  const SimSeeds seeds = sim_seeds(20 * kPositions * kCuts);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const std::uint64_t cut = seed - 1;
    ASSERT_EQ(cut_once(seed, cut / kCuts % kPositions, static_cast<Cut>(cut % kCuts), totals), "")
        << "OUTRIDER_SIM_SEED=" << seed;
  }
  if (seeds.single) return;
  EXPECT_GT(totals.failovers, totals.cuts / 2) << "these cuts are too kind";
  EXPECT_GT(totals.failbacks, totals.cuts / 10) << "no server comes back in time";
  EXPECT_GT(totals.server_tokens, totals.failovers);
  EXPECT_GT(totals.stops, totals.cuts / 10);
  EXPECT_GT(totals.stop_strings, totals.cuts / 10);
  EXPECT_GT(totals.changes_within, totals.cuts / 10);
}

// In the middle of an answer that this device decides; a second loss of the link finds it of no
// use, and is waited for.
TEST(FailoverSim, AFlashThatFailsReturnsToTheServer) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    TwoTargets two(seed, 120, from_ms(15), from_ms(60), {from_ms(2), from_ms(25)});
    CheckedEdge::Plan plan = two.plan(50);
    plan.decoding.choice.settings.constraint = {};  // which may end the answer early
    plan.decoding.stop_ids.clear();
    plan.failover->options.link.first_patience = from_ms(500);
    plan.failover->options.failback_after = std::chrono::hours(1);
    CheckedEdge edge(two.simulation, two.link, two.model, plan);
    const auto fails_after = static_cast<std::size_t>(two.random.between(10, 25));
    int cuts = 0;
    bool fails = false;
    edge.begin();
    while (!edge.done() && two.simulation.step(two.simulation.now() + kDeadlock)) {
      const std::size_t shown = edge.shown().size();
      if (cuts == 0 && shown >= 5) {
        two.cut(static_cast<Cut>(seed % kCuts), from_ms(8000));
        ++cuts;
      }
      if (cuts == 1 && edge.failover().failbacks > 0 && shown >= 35) {
        two.cut(Cut::kReset, from_ms(1000));
        ++cuts;
      }
      if (!fails && edge.failover().failovers > 0 && shown >= fails_after) {
        two.device.fail_next_pass(data_loss("target.pack, layer 3: Input/output error"));
        fails = true;
      }
    }
    ASSERT_TRUE(edge.done()) << seed;
    EXPECT_EQ(edge.failure(), "") << seed;
    EXPECT_EQ(edge.shown(), edge.expected()) << seed;
    EXPECT_EQ(two.device.failed_passes(), 1) << seed;
    EXPECT_EQ(edge.failover().failovers, 1u) << seed;
    EXPECT_EQ(edge.failover().failbacks, 1u) << seed;
    EXPECT_EQ(cuts, 2) << seed;
  }
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
  EXPECT_EQ(edge.failover().failbacks, 0u);
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
  plan.decoding.speculation.first.strategy = Strategy::kAr;
  plan.decoding.reconnect.timeout = std::chrono::minutes(5);
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
