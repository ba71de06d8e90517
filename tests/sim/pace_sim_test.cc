// The strategies against each other at other devices' paces, under a virtual clock: the times of
// FSD's tables 5, 8 and 9, toy models for the tokens. What the bars of a real run rest on shows
// here in a second; the figures of the product itself are outrider-bench's.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/sim_edge.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

struct Pace {
  const char* name;
  double round_ms;  // four draft steps
  double pass_ms;   // of up to five rows
  double link_ms;   // one way
};

// FSD table 5, and 8 (the last).
constexpr Pace kPaces[] = {
    {"jetson-68m-7b", 334, 497, 95},        {"rtx-68m-7b", 102, 442, 42},
    {"jetson-160m-13b", 1596, 616, 91},     {"rtx-160m-13b", 555, 618, 46},
    {"jetson-68m-llama2-7b", 301, 522, 96}, {"rtx-68m-llama2-7b", 99, 467, 47},
    {"go2-qwen2vl", 288, 620, 120}};

// FSD table 9: milliseconds at 1, 2, 3, 4, 8, 12, 16, 32 rows.
constexpr std::size_t kRows[] = {1, 2, 3, 4, 8, 12, 16, 32};
constexpr double kServer[] = {17.94, 21.75, 24.35, 24.63, 30.73, 44.52, 45.79, 96.94};
constexpr double kClient[] = {7.76, 8.02, 8.02, 8.02, 8.97, 9.71, 10.63, 14.49};

double between(const double (&ms)[8], std::size_t rows) {
  for (std::size_t i = 1; i < 8; ++i) {
    if (rows > kRows[i]) continue;
    const double share =
        static_cast<double>(rows - kRows[i - 1]) / static_cast<double>(kRows[i] - kRows[i - 1]);
    return ms[i - 1] + share * (ms[i] - ms[i - 1]);
  }
  return ms[7];
}

struct Times {
  std::function<double(std::size_t)> pass_ms;
  std::function<double(std::size_t)> step_ms;
  double link_ms;
};

// "printed": a pass of up to gamma + 1 rows takes what the table says, longer ones f times that.
Times printed(const Pace& pace) {
  return {[=](std::size_t rows) {
            return pace.pass_ms * (rows <= 5 ? 1.0 : between(kServer, rows) / between(kServer, 5));
          },
          [=](std::size_t rows) { return pace.round_ms / 4 * between(kClient, rows) / kClient[0]; },
          pace.link_ms};
}

// "measured": cloud decoding's own time at one row, f times that for more.
Times measured(const Pace& pace, double one_row_ms) {
  Times times = printed(pace);
  times.pass_ms = [=](std::size_t rows) {
    return one_row_ms * between(kServer, rows) / kServer[0];
  };
  return times;
}

Times table9(double link_ms) {
  return {[](std::size_t rows) { return between(kServer, rows); },
          [](std::size_t rows) { return between(kClient, rows); }, link_ms};
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
  SimServer::Pace pace;
  pace.takes = [&](std::size_t rows) { return from_ms(times.pass_ms(rows)); };
  SimServer server(simulation, model, {.tokenizer_hash = "toy"}, pace);
  const SimLink::Delays delays{from_ms(times.link_ms), from_ms(times.link_ms)};
  SimLink link(simulation, server, delays, delays);
  SimEdge::Plan plan{.prompt = {1, 2, static_cast<TokenId>(seed % 16)}, .decoding = {}};
  plan.strays = strays;
  plan.workers = 4;
  plan.exits = strategy == Strategy::kMirror || strategy == Strategy::kFsd ? ExitManner::kTrained
                                                                           : ExitManner::kNone;
  plan.step_takes = [&](std::size_t rows) { return from_ms(times.step_ms(rows)); };
  plan.report_after = [&](std::size_t exit, std::size_t rows) {
    return from_ms(times.pass_ms(rows) * (0.25 + 0.25 * static_cast<double>(exit)));
  };
  plan.decoding.strategy = strategy;
  plan.decoding.optimize = optimize;
  plan.decoding.tokenizer_hash = "toy";
  plan.decoding.token_bound = 16;
  plan.decoding.seed = seed;
  plan.decoding.end_position = 203;
  SimEdge edge(simulation, link, model, plan);
  edge.begin();
  while (!edge.done() && simulation.step(simulation.now() + std::chrono::hours(1))) {
  }
  EXPECT_TRUE(edge.done());
  EXPECT_EQ(edge.shown(), edge.expected());
  EXPECT_EQ(edge.failure(), "");
  const DecodingStats& stats = edge.session().stats();
  return {.ms_per_token = stats.tpot_ms().value_or(0),
          .passes_per_token = 1 / stats.tokens_per_pass().value_or(1),
          .stats = stats};
}

// Of several texts.
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
  double over_fsd = 0;
  double over_sd = 0;
  for (const Pace& pace : kPaces) {
    const Compared one = compare(pace.name, printed(pace));
    EXPECT_GE(one.over_ar, 1.1) << pace.name;
    EXPECT_GE(one.over_fsd, 1.1) << pace.name;
    over_fsd += one.over_fsd / std::size(kPaces);
    over_sd += one.over_sd / std::size(kPaces);
  }
  EXPECT_GE(over_fsd, 1.2);
  EXPECT_GE(over_sd, 1.5);
}

TEST(PaceSim, MirroringBeatsCloudDecodingAtItsOwnTimes) {
  const double one_row_ms[] = {340, 330, 470, 460, 345, 335, 354};
  for (std::size_t i = 0; i < std::size(kPaces); ++i) {
    const Compared one = compare(kPaces[i].name, measured(kPaces[i], one_row_ms[i]));
    EXPECT_GE(one.over_ar, i == 2 ? 0.97 : 1.1) << kPaces[i].name;
  }
}

TEST(PaceSim, WhereTheDraftCannotPayNothingIsLost) {
  for (const double link_ms : {1.0, 5.0, 42.0, 95.0, 300.0}) {
    const Compared one = compare(("table9 " + std::to_string(link_ms)).c_str(), table9(link_ms));
    EXPECT_GE(one.over_ar, 0.97) << link_ms;
  }
  for (const float strays : {0.0f, 3.0f, 50.0f}) {
    const Compared one =
        compare(("strays " + std::to_string(strays)).c_str(), printed(kPaces[0]), strays);
    EXPECT_GE(one.over_ar, 0.97) << strays;
  }
}

TEST(PaceSim, ForCostMirroringTakesNoMorePassesThanPlainSpeculation) {
  for (const Pace& pace : kPaces) {
    const Outcome sd = mean(printed(pace), Strategy::kSd, kStrays);
    const Outcome mirror = mean(printed(pace), Strategy::kMirror, kStrays, Optimize::kCost);
    EXPECT_LE(mirror.passes_per_token, sd.passes_per_token * 1.02) << pace.name;
    std::printf("cost %-20s passes/token sd %.3f mirror %.3f, ms sd %.1f mirror %.1f\n", pace.name,
                sd.passes_per_token, mirror.passes_per_token, sd.ms_per_token, mirror.ms_per_token);
  }
}

}  // namespace
}  // namespace outrider
