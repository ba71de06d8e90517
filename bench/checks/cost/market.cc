// market: what the market for rows brings (common/decoding/verify/scheduling/market.h): sixteen
// sessions with good, bad and boasting drafts against passes that verify a fixed number of each
// session's drafted tokens, and a greedy tenant beside modest ones. A session waits for its drafted
// tokens, or goes on without (eager). The shipped scheduler, light clients, emulated devices under
// the virtual clock (bench/capacity). SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/capacity/capacity.h"
#include "bench/capacity/verifier_server.h"
#include "bench/checks/checks.h"
#include "bench/load/load_figures.h"
#include "bench/report/text_table.h"
#include "common/serving/cli/quantities.h"

namespace outrider {
namespace {

// Clients send rounds of four tokens and are up to four rounds ahead.
constexpr int kRound = 4;
constexpr int kMaxAhead = 16;
constexpr int kGreedyRound = 16;
constexpr std::array kFixedLengths = {1, 2, 3, 4, 6, 8, 12, 16};

const std::vector<CrowdKind> kMixed = {
    {.clients = 6, .acceptance = 0.85, .stated = 0.85, .gamma = kRound},
    {.clients = 5, .acceptance = 0.3, .stated = 0.3, .gamma = kRound},
    {.clients = 5, .acceptance = 0.3, .stated = 0.97, .gamma = kRound}};
constexpr std::size_t kModest = 8;
constexpr std::size_t kGreedy = 32;

struct MarketOptions {
  std::vector<std::string> paces = {"all"};
  Duration duration = std::chrono::seconds(20);
  int seeds = 5;
};

ClientLoad load_of(const MarketOptions& options, const CapacityPace& pace,
                   std::vector<CrowdKind> kinds, std::uint64_t seed) {
  ClientLoad load;
  load.draft_step = from_ms(pace.step_ms);
  load.seed = seed;
  load.warm_up = options.duration / 4;
  load.measured = options.duration;
  load.clients = 0;
  for (const CrowdKind& kind : kinds) load.clients += kind.clients;
  load.kinds = std::move(kinds);
  load.up = load.down = {.delay = from_ms(pace.one_way_ms), .bit_per_s = 0};
  return load;
}

Result<CrowdFigures> run(const ClientLoad& load, const CapacityPace& pace,
                         VerifierServer::Limits limits) {
  Simulation simulation(load.seed);
  limits.max_rows = pace.last_row();
  limits.gamma = std::min(limits.gamma, static_cast<int>(pace.last_row()) - 1);
  VerifierServer server(simulation, load, pace.pass, limits);
  Crowd crowd(simulation, load, server, DraftHabit::kSendsAhead, limits.gamma);
  crowd.run();
  OUTRIDER_RETURN_IF_ERROR(server.status());
  return crowd.figures();
}

// ------------------------------------------------------------------------ mixed drafts

// Tokens a second by seed: with the market, and with each fixed length.
struct MixedFigures {
  std::vector<double> market;
  std::vector<std::vector<double>> fixed;  // [of kFixedLengths][seed]
};

Result<MixedFigures> run_mixed(const MarketOptions& options, const CapacityPace& pace, bool waits) {
  MixedFigures figures;
  figures.fixed.resize(kFixedLengths.size());
  const double seconds = to_seconds(options.duration);
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const ClientLoad load = load_of(options, pace, kMixed, static_cast<std::uint64_t>(seed));
    OUTRIDER_ASSIGN_OR_RETURN(const CrowdFigures market,
                              run(load, pace, {.gamma = kMaxAhead, .waits = waits}));
    figures.market.push_back(static_cast<double>(market.tokens) / seconds);
    for (std::size_t i = 0; i < kFixedLengths.size(); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(
          const CrowdFigures fixed,
          run(load, pace, {.gamma = kFixedLengths[i], .price_rows = false, .waits = waits}));
      figures.fixed[i].push_back(static_cast<double>(fixed.tokens) / seconds);
    }
  }
  return figures;
}

// The place of the best fixed length, known only afterwards.
std::size_t best_fixed(const MixedFigures& figures) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < figures.fixed.size(); ++i) {
    if (mean_of(figures.fixed[i]).value > mean_of(figures.fixed[best]).value) best = i;
  }
  return best;
}

void judge_mixed(const std::string& name, const MixedFigures& figures, TextTable& table,
                 CheckOutcome& outcome, std::vector<Bar>& bars) {
  const std::size_t best = best_fixed(figures);
  std::vector<std::string> row = {name, fmt::format("{:.0f}", mean_of(figures.market).value)};
  Json json = {{"market", to_json(mean_of(figures.market))}};
  for (std::size_t i = 0; i < kFixedLengths.size(); ++i) {
    const Estimate ratio = ratio_of_means(figures.market, figures.fixed[i]);
    row.push_back(fmt::format("{:.0f}", mean_of(figures.fixed[i]).value));
    json["fixed_" + std::to_string(kFixedLengths[i])] = to_json(mean_of(figures.fixed[i]));
    bars.push_back({fmt::format("{}: market over {} {}", name,
                                i == best ? "the best length," : "length", kFixedLengths[i]),
                    ratio, i == best ? 1.0 : 1.1});
  }
  table.rows.push_back(std::move(row));
  outcome.figures["mixed"][name] = std::move(json);
}

// ---------------------------------------------------------------------- a greedy tenant

std::vector<CrowdKind> modest_tenants() {
  std::vector<CrowdKind> kinds;
  for (std::size_t i = 0; i < kModest; ++i) {
    kinds.push_back({.clients = 1,
                     .acceptance = 0.7,
                     .stated = 0.7,
                     .gamma = kRound,
                     .group = "modest-" + std::to_string(i)});
  }
  return kinds;
}

struct FairFigures {
  std::vector<double> alone, beside;  // tokens of all modest tenants, by seed
  std::vector<double> jain;           // over them, beside the greedy one
};

Result<FairFigures> run_fair(const MarketOptions& options, const CapacityPace& pace) {
  FairFigures figures;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    std::vector<CrowdKind> kinds = modest_tenants();
    const auto tokens_with = [&]() -> Result<std::vector<double>> {
      const ClientLoad load = load_of(options, pace, kinds, static_cast<std::uint64_t>(seed));
      OUTRIDER_ASSIGN_OR_RETURN(const CrowdFigures run_figures,
                                run(load, pace, {.gamma = 4 * kMaxAhead, .waits = true}));
      const auto modest = std::span(run_figures.tokens_of).first(kModest);
      return std::vector<double>(modest.begin(), modest.end());
    };
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> alone, tokens_with());
    kinds.push_back({.clients = kGreedy,
                     .acceptance = 0.3,
                     .stated = 0.97,
                     .gamma = kGreedyRound,
                     .group = "greedy"});
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> beside, tokens_with());
    figures.alone.push_back(std::accumulate(alone.begin(), alone.end(), 0.0));
    figures.beside.push_back(std::accumulate(beside.begin(), beside.end(), 0.0));
    figures.jain.push_back(jain_index(beside).value_or(0));
  }
  return figures;
}

void judge_fair(const CapacityPace& pace, const FairFigures& figures, TextTable& table,
                CheckOutcome& outcome, std::vector<Bar>& bars) {
  const Estimate left = ratio_of_means(figures.beside, figures.alone);
  const Estimate jain = mean_of(figures.jain);
  table.rows.push_back(
      {pace.name, fmt::format("{:.2f}", left.value), fmt::format("{:.3f}", jain.value)});
  outcome.figures["fair"][pace.name] = {{"left", to_json(left)}, {"jain", to_json(jain)}};
  bars.push_back({pace.name + ": modest tenants' tokens beside the greedy one", left, 0.75});
  bars.push_back({pace.name + ": Jain's index over them", jain, 0.95});
}

Result<CheckOutcome> run_market(const MarketOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<CapacityPace> paces,
                            find_capacity_paces(options.paces));
  CheckOutcome outcome;
  outcome.passed = true;
  std::vector<Bar> bars;
  TextTable mixed{.heads = {"tokens/s", "market"}, .rows = {}};
  for (const int length : kFixedLengths) mixed.heads.push_back(fmt::format("fixed {}", length));
  TextTable fair{.heads = {"beside a greedy tenant", "of their tokens left", "Jain's index"},
                 .rows = {}};
  for (const CapacityPace& pace : paces) {
    for (const bool waits : {true, false}) {
      OUTRIDER_ASSIGN_OR_RETURN(const MixedFigures of_mixed, run_mixed(options, pace, waits));
      judge_mixed(pace.name + (waits ? "" : " eager"), of_mixed, mixed, outcome, bars);
    }
    OUTRIDER_ASSIGN_OR_RETURN(const FairFigures of_fair, run_fair(options, pace));
    judge_fair(pace, of_fair, fair, outcome, bars);
  }
  std::fprintf(stderr, "%s\n%s\n", to_plain_text(mixed, 1).c_str(), to_plain_text(fair, 1).c_str());
  outcome.hold(bars);
  return outcome;
}

}  // namespace

void add_market_check(CheckList& checks) {
  auto options = std::make_shared<MarketOptions>();
  CLI::App* command = checks.add(
      "market",
      "Sessions with good, bad and boasting drafts, and a greedy tenant, on one server (emulated "
      "devices, virtual clock)",
      [options] { return run_market(*options); });
  command->add_option("--pace", options->paces, "Devices with a curve by rows, or all")
      ->delimiter(',');
  add_duration(*command, "--duration", options->duration, std::chrono::seconds(1),
               CLI::Range(1.0, 3600.0),
               "Seconds of virtual time that are measured, after a quarter as much");
  command->add_option("--seeds", options->seeds, "Runs over which figures are averaged")
      ->check(CLI::Range(2, 100));
}

}  // namespace outrider
