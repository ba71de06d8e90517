// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/capacity.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "bench/capacity/batch_server.h"
#include "bench/capacity/verifier_server.h"

namespace outrider {
namespace {

constexpr std::array kGammas = {1, 2, 3, 4, 5, 6, 8, 12};
constexpr std::int64_t kMinRowLimit = 8;
constexpr double kShare = 0.95;  // of the answers that keep an SLO

bool is_colocated(CapacityContender contender) {
  return contender == CapacityContender::kColocatedSteps ||
         contender == CapacityContender::kColocatedBlock;
}

BatchKind kind_of(CapacityContender contender) {
  switch (contender) {
    case CapacityContender::kColocatedSteps:
      return BatchKind::kColocatedSteps;
    case CapacityContender::kColocatedBlock:
      return BatchKind::kColocatedBlock;
    case CapacityContender::kSpecEdgeStatic:
      return BatchKind::kStatic;
    case CapacityContender::kDipSd:
      return BatchKind::kPipelined;
    default:
      return BatchKind::kDynamic;
  }
}

DraftHabit habit_of(CapacityContender contender, int gamma) {
  const bool drafts = !is_colocated(contender) && contender != CapacityContender::kServerDrafting;
  if (gamma == 0 || !drafts) return DraftHabit::kNone;
  if (is_ours(contender)) return DraftHabit::kSendsAhead;
  return contender == CapacityContender::kDipSd ? DraftHabit::kWaits : DraftHabit::kDraftsAhead;
}

std::vector<CapacityTuning> tunings_of(CapacityContender contender, const CapacityPace& pace) {
  std::vector<int> gammas(kGammas.begin(), kGammas.end());
  if (contender == CapacityContender::kPlain || contender == CapacityContender::kServerDrafting) {
    gammas = {0};
  }
  if (contender == CapacityContender::kOurs) gammas.insert(gammas.begin(), 0);
  std::vector<CapacityTuning> tunings;
  for (const PaceCurve::Point& point : pace.pass.points()) {
    if (point.rows < kMinRowLimit && point.rows < pace.last_row()) continue;
    for (const int gamma : gammas) {
      if (gamma < point.rows) tunings.push_back({gamma, point.rows});
    }
  }
  return tunings;
}

double mean_at(const std::vector<double>& values, std::span<const std::size_t> indices) {
  double sum = 0;
  for (const std::size_t index : indices) sum += values[index];
  return sum / static_cast<double>(indices.size());
}

double per(std::uint64_t part, std::uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// One contender's runs; remembers the first error.
class Trials final {
 public:
  Trials(const CapacityQuestion& question, CapacityContender contender)
      : question_(question), contender_(contender) {}

  std::size_t most(const CapacityTuning& tuning, std::uint64_t seed, std::size_t guess) {
    return max_sessions([&](std::size_t clients) { return holds(tuning, seed, clients); }, guess,
                        question_.max_clients);
  }
  bool holds(const CapacityTuning& tuning, std::uint64_t seed, std::size_t clients) {
    const Result<CapacityRun> run = run_capacity(question_, contender_, tuning, clients, seed);
    if (!run.ok() && status_.ok()) status_ = run.status();
    return run.ok() && question_.slo.is_met(run->clients);
  }
  const Status& status() const { return status_; }

 private:
  const CapacityQuestion& question_;
  const CapacityContender contender_;
  Status status_;
};

}  // namespace

bool CapacitySlo::is_met(const CrowdFigures& figures) const {
  if (figures.tpot_ms.empty() || figures.ttft_ms.empty()) return false;
  return quantile(figures.tpot_ms, kShare) <= tpot_ms &&
         quantile(figures.ttft_ms, kShare) <= ttft_ms;
}

Result<CapacityRun> run_capacity(const CapacityQuestion& question, CapacityContender contender,
                                 const CapacityTuning& tuning, std::size_t clients,
                                 std::uint64_t seed) {
  ClientLoad load = question.load;
  load.clients = clients;
  load.seed = seed;
  load.acceptance = question.pair.acceptance();
  Simulation simulation(seed);
  std::unique_ptr<CrowdServer> server;
  if (contender == CapacityContender::kPlain || is_ours(contender)) {
    const double share = drafts_beside(contender) ? question.draft_share : 0;
    server = std::make_unique<VerifierServer>(
        simulation, load, question.pace.pass,
        VerifierServer::Limits{
            .gamma = tuning.gamma, .max_rows = tuning.max_rows, .draft_share = share});
  } else {
    server = std::make_unique<BatchServer>(simulation, load, question.pace.pass,
                                           BatchRule{.kind = kind_of(contender),
                                                     .gamma = tuning.gamma,
                                                     .max_rows = tuning.max_rows,
                                                     .draft_share = question.draft_share});
  }
  Crowd crowd(simulation, load, *server, habit_of(contender, tuning.gamma), tuning.gamma);
  crowd.run();
  OUTRIDER_RETURN_IF_ERROR(server->status().with_context(name_of(contender)));
  CapacityRun run{.clients = crowd.figures(), .server = server->counts()};
  run.tokens_per_s = static_cast<double>(run.clients.tokens) / to_seconds(load.measured);
  return run;
}

std::size_t max_sessions(const std::function<bool(std::size_t)>& holds, std::size_t guess,
                         std::size_t limit) {
  std::size_t low = 0, high = limit + 1;  // it holds at low and not at high
  std::size_t probe = std::clamp<std::size_t>(guess, 1, limit);
  std::size_t stride = std::max<std::size_t>(probe / 8, 1);
  while (high - low > std::max<std::size_t>(low / 100, 1)) {
    (holds(probe) ? low : high) = probe;
    const bool bounded = low > 0 && high <= limit;
    if (bounded) {
      probe = low + (high - low) / 2;
    } else if (low > 0) {
      probe = std::min(low + stride, limit);
    } else {
      probe = high > stride ? high - stride : high / 2;
    }
    stride *= 2;
  }
  return low;
}

Result<CapacityFigures> find_capacity(const CapacityQuestion& question,
                                      CapacityContender contender) {
  Trials trials(question, contender);
  CapacityFigures figures{.contender = contender};
  std::size_t most = 0;
  for (const CapacityTuning& tuning : tunings_of(contender, question.pace)) {
    if (figures.best.max_rows > 1 && most >= question.max_clients) break;
    const std::size_t better = most + std::max<std::size_t>(most / 100, 1);
    if (most > 0 && !trials.holds(tuning, 1, std::min(better, question.max_clients))) continue;
    const std::size_t reached = trials.most(tuning, 1, std::max<std::size_t>(better, 8));
    if (reached <= most && figures.best.max_rows > 1) continue;
    most = reached;
    figures.best = tuning;
  }
  for (int i = 0; i < question.seeds; ++i) {
    const auto seed = static_cast<std::uint64_t>(i + 1);
    const std::size_t reached = trials.most(figures.best, seed, std::max<std::size_t>(most, 1));
    OUTRIDER_RETURN_IF_ERROR(trials.status());
    figures.sessions.push_back(static_cast<double>(reached));
    if (reached == 0) {
      figures.tokens_per_s.push_back(0);
      continue;
    }
    OUTRIDER_ASSIGN_OR_RETURN(const CapacityRun run,
                              run_capacity(question, contender, figures.best, reached, seed));
    figures.tokens_per_s.push_back(run.tokens_per_s);
    figures.rounds_per_pass += per(run.server.rounds, run.server.passes) / question.seeds;
    figures.rows_per_pass += per(run.server.rows, run.server.passes) / question.seeds;
  }
  return figures;
}

double DrafterFigures::server_share() const {
  return per(from_server, from_clients + from_server);
}

Estimate DraftersAtLoad::both_over_better() const {
  const bool clients_are =
      mean_of(by_clients.tokens_per_s).value > mean_of(by_server.tokens_per_s).value;
  return ratio_of_means(both.tokens_per_s, (clients_are ? by_clients : by_server).tokens_per_s);
}

Result<DraftersAtLoad> compare_drafters(const CapacityQuestion& question,
                                        const CapacityTuning& tuning, std::size_t clients) {
  DraftersAtLoad load{.clients = clients};
  const auto add = [&](CapacityContender drafter, DrafterFigures& figures) -> Status {
    for (int i = 0; i < question.seeds; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(
          const CapacityRun run,
          run_capacity(question, drafter, tuning, clients, static_cast<std::uint64_t>(i + 1)));
      figures.tokens_per_s.push_back(run.tokens_per_s);
      if (!run.clients.tpot_ms.empty()) {
        figures.tpot_p95_ms.push_back(quantile(run.clients.tpot_ms, kShare));
      }
      figures.from_clients += run.server.from_clients;
      figures.from_server += run.server.from_server;
    }
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(add(CapacityContender::kOursDrafting, load.by_clients));
  OUTRIDER_RETURN_IF_ERROR(add(CapacityContender::kServerDrafting, load.by_server));
  OUTRIDER_RETURN_IF_ERROR(add(CapacityContender::kBothDrafting, load.both));
  return load;
}

double law_factor(const CapacityQuestion& question, const CapacityFigures& colocated) {
  const auto rows = static_cast<std::int64_t>(colocated.rows_per_pass + 0.5);
  const auto rounds = static_cast<std::int64_t>(colocated.rounds_per_pass + 0.5);
  if (rows <= 0) return 1;
  const BatchRule rule{.kind = kind_of(colocated.contender),
                       .gamma = colocated.best.gamma,
                       .max_rows = colocated.best.max_rows,
                       .draft_share = question.draft_share};
  return batch_ms(rule, question.pace.pass, rows, rounds) / question.pace.pass.ms(rows);
}

Estimate mean_of(const std::vector<double>& by_seed) {
  const auto mean = [&](std::span<const std::size_t> seeds) -> std::optional<double> {
    if (seeds.empty()) return std::nullopt;
    return mean_at(by_seed, seeds);
  };
  return bootstrap(by_seed.size(), mean).value_or(Estimate{});
}

Estimate ratio_of_means(const std::vector<double>& above, const std::vector<double>& below) {
  const auto ratio = [&](std::span<const std::size_t> seeds) -> std::optional<double> {
    const double under = seeds.empty() ? 0 : mean_at(below, seeds);
    if (under <= 0) return std::nullopt;
    return mean_at(above, seeds) / under;
  };
  return bootstrap(above.size(), ratio).value_or(Estimate{});
}

}  // namespace outrider
