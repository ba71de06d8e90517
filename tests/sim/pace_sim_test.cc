// The strategies against each other at other devices' paces, under a virtual clock: the times of
// FSD's tables 5, 8 and 9, toy models for the tokens. What the bars of a real run rest on shows
// here in a second; the figures of the product itself are outrider-bench's.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "bench/paces/paces.h"
#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "tests/sim/checked_edge.h"
#include "tests/sim/toy_exits.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

// How long passes and draft steps take by their rows, and the link.
struct Times {
  PaceCurve pass;
  PaceCurve step;
  double one_way_ms;
};

Times times_of(const PaperPace& pace, PassTimes times) {
  return {pass_curve(with_times(pace, times)), step_curve(pace), pace.one_way_ms};
}

std::vector<PaperPace> group(PaceGroup group) {
  std::vector<PaperPace> paces;
  for (const PaperPace& pace : paper_paces()) {
    if (pace.group == group) paces.push_back(pace);
  }
  return paces;
}

std::function<Duration(std::size_t)> by_rows(const PaceCurve& curve) {
  return [&curve](std::size_t rows) { return from_ms(curve.ms(static_cast<std::int64_t>(rows))); };
}

struct Outcome {
  double ms_per_token = 0;
  double passes_per_token = 0;
  DecodingStats stats;
};

Outcome decode(const Times& times, Strategy strategy, float strays, std::uint64_t seed,
               Optimize optimize = Optimize::kLatency) {
  Simulation simulation(seed);
  ToyModel model(16, 400);
  ToyExits exits(model);
  SchedulerOptions options{.tokenizer_hash = "toy"};
  if (strategy == Strategy::kMirror || strategy == Strategy::kFsd) options.exits = &exits;
  SimServer server(simulation, model, options, [&times](const PassRowCounts& rows) {
    return from_ms(times.pass.ms(static_cast<std::int64_t>(rows.rows)));
  });
  const SimLink::Delays delays{from_ms(times.one_way_ms), from_ms(times.one_way_ms)};
  SimLink link(simulation, server, {.up = delays, .down = delays});
  CheckedEdge::Plan plan{.prompt = {1, 2, static_cast<TokenId>(seed % 16)}, .decoding = {}};
  plan.strays = strays;
  plan.workers = 4;
  plan.step_takes = by_rows(times.step);
  plan.decoding.speculation.first.strategy = strategy;
  plan.decoding.speculation.first.gamma = 4;
  plan.decoding.speculation.first.optimize = optimize;
  plan.decoding.tokenizer_hash = "toy";
  plan.decoding.speculation.token_bound = 16;
  plan.decoding.choice.seed = seed;
  plan.decoding.speculation.end_position = 203;
  CheckedEdge edge(simulation, link, model, plan);
  edge.begin();
  while (!edge.done() && simulation.step(simulation.now() + std::chrono::hours(1))) {
  }
  EXPECT_TRUE(edge.done());
  EXPECT_EQ(edge.shown(), edge.expected());
  EXPECT_EQ(edge.failure(), "");
  const DecodingStats& stats = edge.session().stats();
  return {.ms_per_token = stats.tpot_ms.value_or(0),
          .passes_per_token = 1 / stats.tokens_per_pass.value_or(1),
          .stats = stats};
}

// The mean over several texts.
Outcome mean(const Times& times, Strategy strategy, float strays,
             Optimize optimize = Optimize::kLatency) {
  constexpr std::uint64_t kTexts = 2;
  Outcome sum;
  for (std::uint64_t seed = 1; seed <= kTexts; ++seed) {
    Outcome one = decode(times, strategy, strays, seed, optimize);
    sum.ms_per_token += one.ms_per_token / kTexts;
    sum.passes_per_token += one.passes_per_token / kTexts;
    sum.stats = one.stats;
  }
  return sum;
}

void print(const char* name, const Outcome& ar, const Outcome& sd, const Outcome& fsd,
           const Outcome& mirror) {
  const DecodingStats& stats = mirror.stats;
  const PredraftStats& ahead = stats.predraft;
  std::printf(
      "%-22s ar %6.1f sd %6.1f fsd %6.1f mirror %6.1f | m/ar %.2f m/sd %.2f m/fsd %.2f | "
      "tokens/pass sd %.2f m %.2f | hit %.2f part %.2f late %.2f miss %.2f synced %.2f | "
      "ahead %llu dead %llu changes %zu\n",
      name, ar.ms_per_token, sd.ms_per_token, fsd.ms_per_token, mirror.ms_per_token,
      ar.ms_per_token / mirror.ms_per_token, sd.ms_per_token / mirror.ms_per_token,
      fsd.ms_per_token / mirror.ms_per_token, 1 / sd.passes_per_token, 1 / mirror.passes_per_token,
      static_cast<double>(ahead.hits) / static_cast<double>(ahead.verdicts),
      static_cast<double>(ahead.partial_hits) / static_cast<double>(ahead.verdicts),
      static_cast<double>(ahead.late_hits) / static_cast<double>(ahead.verdicts),
      static_cast<double>(ahead.misses) / static_cast<double>(ahead.verdicts),
      static_cast<double>(ahead.synced) / static_cast<double>(ahead.verdicts),
      static_cast<unsigned long long>(ahead.ahead_nodes),
      static_cast<unsigned long long>(ahead.ahead_dead), stats.plan_changes.size());
}

constexpr float kStrays = 0.25f;  // about 2.2 tokens in a round of four, as FSD's Vicuna pairs

struct Compared {
  double over_ar, over_sd, over_fsd, fsd_over_sd;
};

Compared compare(const char* name, const Times& times, float strays = kStrays) {
  const Outcome ar = mean(times, Strategy::kAr, strays);
  const Outcome sd = mean(times, Strategy::kSd, strays);
  const Outcome fsd = mean(times, Strategy::kFsd, strays);
  const Outcome mirror = mean(times, Strategy::kMirror, strays);
  print(name, ar, sd, fsd, mirror);
  EXPECT_EQ(mirror.stats.predraft.surplus_rows, 0u) << name;
  return {ar.ms_per_token / mirror.ms_per_token, sd.ms_per_token / mirror.ms_per_token,
          fsd.ms_per_token / mirror.ms_per_token, sd.ms_per_token / fsd.ms_per_token};
}

TEST(PaceSim, MirroringHidesTheRoundTripAtTheTablesPaces) {
  const std::vector<PaperPace> paces = group(PaceGroup::kTables5And8);
  const auto count = static_cast<double>(paces.size());
  double over_fsd = 0;
  double over_sd = 0;
  for (const PaperPace& pace : paces) {
    const Compared one = compare(pace.name.c_str(), times_of(pace, PassTimes::kPrinted));
    EXPECT_GE(one.over_ar, 1.1) << pace.name;
    EXPECT_GE(one.over_fsd, 1.1) << pace.name;
    over_fsd += one.over_fsd / count;
    over_sd += one.over_sd / count;
  }
  EXPECT_GE(over_fsd, 1.2);
  EXPECT_GE(over_sd, 1.5);
}

TEST(PaceSim, MirroringBeatsCloudDecodingAtItsOwnTimes) {
  for (const PaperPace& pace : group(PaceGroup::kTables5And8)) {
    const Compared one = compare(pace.name.c_str(), times_of(pace, PassTimes::kMeasured));
    EXPECT_GE(one.over_ar, pace.name == "jetson-160m-13b" ? 0.97 : 1.1) << pace.name;
  }
}

TEST(PaceSim, WhereTheDraftCannotPayNothingIsLost) {
  const PaperPace table9 = group(PaceGroup::kTable9).front();
  for (const double link_ms : {1.0, 5.0, 42.0, 95.0, 300.0}) {
    const PaperPace pace = at_distance(table9, link_ms);
    const Compared one = compare(pace.name.c_str(), times_of(pace, PassTimes::kPrinted));
    EXPECT_GE(one.over_ar, 0.97) << link_ms;
  }
  const Times jetson = times_of(paper_paces().front(), PassTimes::kPrinted);
  for (const float strays : {0.0f, 3.0f, 50.0f}) {
    const Compared one = compare(("strays " + std::to_string(strays)).c_str(), jetson, strays);
    EXPECT_GE(one.over_ar, 0.97) << strays;
  }
}

TEST(PaceSim, ForCostMirroringTakesNoMorePassesThanPlainSpeculation) {
  for (const PaperPace& pace : group(PaceGroup::kTables5And8)) {
    const Times times = times_of(pace, PassTimes::kPrinted);
    const Outcome sd = mean(times, Strategy::kSd, kStrays);
    const Outcome mirror = mean(times, Strategy::kMirror, kStrays, Optimize::kCost);
    EXPECT_LE(mirror.passes_per_token, sd.passes_per_token * 1.02) << pace.name;
    std::printf("cost %-20s passes/token sd %.3f mirror %.3f, ms sd %.1f mirror %.1f\n",
                pace.name.c_str(), sd.passes_per_token, mirror.passes_per_token, sd.ms_per_token,
                mirror.ms_per_token);
  }
}

}  // namespace
}  // namespace outrider
