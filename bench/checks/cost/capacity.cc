// capacity: how many sessions one server carries until an SLO breaks, by the shipped scheduler and
// by others', under the virtual clock (bench/capacity). With --clients one run of so many, and its
// real time; with several who should draft at which load: clients, the server, or both.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "bench/capacity/capacity.h"
#include "bench/checks/checks.h"
#include "bench/paces/paces.h"
#include "bench/report/text_table.h"
#include "common/base/clock.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/quantities.h"
#include "emulation/path/link_profile.h"

namespace outrider {
namespace {

constexpr double kMinOverBest = 1.0;
constexpr double kMinOverLaw = 0.9;
constexpr double kMinOverBetter = 0.97;
// Real time over virtual time, with up to ten thousand clients.
constexpr double kMaxRealTime = 2.0;
// The part of a run before what is measured, over the measured part.
constexpr int kWarmUpPart = 4;
// Defaults of values that have no flag.
constexpr double kOneWayMs = 5;
constexpr int kGamma = 4;
constexpr std::int64_t kMaxRows = 16;

std::vector<CapacityContender> all_contenders() {
  std::vector<CapacityContender> all;
  for (const auto& [contender, name] : enum_names<CapacityContender>) {
    if (!drafts_beside(contender)) all.push_back(contender);
  }
  return all;
}

struct CapacityOptions {
  std::vector<std::string> paces = {"all"};
  std::vector<std::string> pairs = {"all"};
  std::optional<PaceCurve> curve;             // instead of the paces
  std::optional<double> step_ms, one_way_ms;  // with it; table 9's step, 5 ms
  std::string network;                        // empty: the pace's own link
  std::vector<double> slos_ms = {100, 250};
  std::vector<CapacityContender> contenders = all_contenders();  // with --clients the last
  CapacityQuestion question;
  Duration duration = std::chrono::seconds(20);
  std::vector<std::size_t> clients;  // empty: search; several: who should draft
  std::optional<int> gamma;          // with them
  std::optional<std::int64_t> max_rows;
};

Result<std::vector<CapacityPace>> paces_of(const CapacityOptions& options) {
  if (!options.curve) return find_capacity_paces(options.paces);
  return std::vector{CapacityPace{.name = "pass-curve",
                                  .pass = *options.curve,
                                  .step_ms = options.step_ms.value_or(table9_step_ms(1)),
                                  .one_way_ms = options.one_way_ms.value_or(kOneWayMs),
                                  .source = "--pass-curve " + options.curve->to_string()}};
}

// The mean delay and the rate of one direction of a profile; jitter and losses are left out.
LinkLoad link_of(const PathSettings& path) {
  return {.delay = path.delay, .bit_per_s = path.bit_per_s};
}

Result<CapacityQuestion> question_of(const CapacityOptions& options, const CapacityPace& pace,
                                     const CapacityPair& pair) {
  CapacityQuestion question = options.question;
  question.pace = pace;
  question.pair = pair;
  question.load.draft_step = from_ms(pace.step_ms);
  question.load.measured = options.duration;
  question.load.warm_up = options.duration / kWarmUpPart;
  question.load.up = question.load.down = {.delay = from_ms(pace.one_way_ms), .bit_per_s = 0};
  if (options.network.empty()) return question;
  OUTRIDER_ASSIGN_OR_RETURN(const LinkProfile profile, find_link_profile(options.network));
  if (profile.up.silent_from) {
    return invalid_argument("--network " + profile.name + ": nothing arrives on it");
  }
  question.load.up = link_of(profile.up);
  question.load.down = link_of(profile.down);
  return question;
}

// ------------------------------------------------------------------------------- the search

// The contenders at one pace, pair and SLO.
struct CapacityCell {
  CapacityQuestion question;
  std::vector<CapacityFigures> found;

  std::string name() const {
    return fmt::format("{}, {}, {:g} ms", question.pace.name, question.pair.name,
                       question.slo.tpot_ms);
  }
  const CapacityFigures* find(CapacityContender contender) const {
    const auto at = std::ranges::find(found, contender, &CapacityFigures::contender);
    return at == found.end() ? nullptr : &*at;
  }
  // The other contender with the most sessions; null if there is none.
  const CapacityFigures* best_other() const {
    const CapacityFigures* best = nullptr;
    for (const CapacityFigures& one : found) {
      if (is_ours(one.contender)) continue;
      const bool more =
          best == nullptr || mean_of(one.sessions).value > mean_of(best->sessions).value;
      if (more) best = &one;
    }
    return best;
  }
};

// The law's figures for a co-located contender's sessions.
struct LawFigure {
  double factor = 1;
  std::vector<double> sessions;  // by seed
};

std::optional<LawFigure> law_of(const CapacityCell& cell, CapacityContender colocated) {
  const CapacityFigures* beside = cell.find(colocated);
  if (beside == nullptr || mean_of(beside->sessions).value <= 0) return std::nullopt;
  LawFigure law{.factor = law_factor(cell.question, *beside), .sessions = beside->sessions};
  for (double& sessions : law.sessions) sessions *= law.factor;
  return law;
}

Json to_json(const CapacityFigures& figures) {
  return {{"contender", name_of(figures.contender)},
          {"sessions", to_json(mean_of(figures.sessions))},
          {"tokens_per_s", to_json(mean_of(figures.tokens_per_s))},
          {"gamma", figures.best.gamma},
          {"max_rows", figures.best.max_rows},
          {"rounds_per_pass", figures.rounds_per_pass},
          {"rows_per_pass", figures.rows_per_pass}};
}

std::string with_interval(const Estimate& estimate) {
  const Interval around = estimate.interval.value_or(Interval{estimate.value, estimate.value});
  return fmt::format("{:.4g} [{:.4g}, {:.4g}]", estimate.value, around.low, around.high);
}

// One line: what the law says against a draft beside the target, and what was found.
std::string law_line(const CapacityCell& cell, CapacityContender colocated, const char* what) {
  const CapacityFigures* ours = cell.find(CapacityContender::kOursDrafting);
  const std::optional<LawFigure> law = law_of(cell, colocated);
  if (ours == nullptr || !law) return "";
  const Estimate ratio = ratio_of_means(ours->sessions, cell.find(colocated)->sessions);
  return fmt::format(
      "  the law: drafting on the edge carries {:.2f} times the sessions of {}; found {:.2f}, it "
      "{}\n",
      law->factor, what, ratio.value, ratio.value > 1 ? "wins" : "loses");
}

void print_cell(const CapacityCell& cell) {
  TextTable table{
      .heads = {"contender", "sessions [95 %]", "tokens/s", "gamma", "row limit", "rounds a pass"},
      .rows = {}};
  for (const CapacityFigures& one : cell.found) {
    table.rows.push_back({name_of(one.contender), with_interval(mean_of(one.sessions)),
                          fmt::format("{:.0f}", mean_of(one.tokens_per_s).value),
                          std::to_string(one.best.gamma), std::to_string(one.best.max_rows),
                          fmt::format("{:.1f}", one.rounds_per_pass)});
  }
  std::printf("%s\n%s%s%s\n", cell.name().c_str(), to_plain_text(table, 1).c_str(),
              law_line(cell, CapacityContender::kColocatedSteps, "a draft step by step").c_str(),
              law_line(cell, CapacityContender::kColocatedBlock, "a block draft").c_str());
  std::fflush(stdout);
}

Json to_json(const CapacityCell& cell) {
  Json contenders = Json::array();
  for (const CapacityFigures& one : cell.found) contenders.push_back(to_json(one));
  Json json = {{"pace", cell.question.pace.name},
               {"pass_curve", cell.question.pace.pass.to_string()},
               {"pace_source", cell.question.pace.source},
               {"pair", cell.question.pair.name},
               {"pair_source", cell.question.pair.source},
               {"tokens_per_round", cell.question.pair.tau},
               {"acceptance", cell.question.pair.acceptance()},
               {"slo_tpot_ms", cell.question.slo.tpot_ms},
               {"contenders", std::move(contenders)}};
  for (const CapacityContender colocated :
       {CapacityContender::kColocatedSteps, CapacityContender::kColocatedBlock}) {
    const std::optional<LawFigure> law = law_of(cell, colocated);
    if (!law) continue;
    json["law"][name_of(colocated)] = {{"factor", law->factor},
                                       {"sessions", to_json(mean_of(law->sessions))}};
  }
  return json;
}

void add_bars(const CapacityCell& cell, std::vector<Bar>& bars) {
  const CapacityFigures* ours = cell.find(CapacityContender::kOurs);
  const CapacityFigures* best = cell.best_other();
  if (ours != nullptr && best != nullptr && mean_of(best->sessions).value > 0) {
    bars.push_back({fmt::format("ours over {} at {}", name_of(best->contender), cell.name()),
                    ratio_of_means(ours->sessions, best->sessions), kMinOverBest});
  }
  const CapacityFigures* drafting = cell.find(CapacityContender::kOursDrafting);
  const std::optional<LawFigure> law = law_of(cell, CapacityContender::kColocatedSteps);
  if (drafting != nullptr && law) {
    bars.push_back({"drafting over the law's figure at " + cell.name(),
                    ratio_of_means(drafting->sessions, law->sessions), kMinOverLaw});
  }
}

Result<CapacityCell> search_cell(const CapacityQuestion& question,
                                 const std::vector<CapacityContender>& contenders) {
  CapacityCell cell{.question = question, .found = {}};
  for (const CapacityContender contender : contenders) {
    OUTRIDER_ASSIGN_OR_RETURN(CapacityFigures figures, find_capacity(question, contender));
    cell.found.push_back(std::move(figures));
  }
  print_cell(cell);
  return cell;
}

Result<CheckOutcome> search_all(const CapacityOptions& options,
                                const std::vector<CapacityPace>& paces,
                                const std::vector<CapacityPair>& pairs) {
  CheckOutcome outcome{.passed = true};
  std::vector<Bar> bars;
  Json cells = Json::array();
  for (const CapacityPace& pace : paces) {
    for (const CapacityPair& pair : pairs) {
      OUTRIDER_ASSIGN_OR_RETURN(CapacityQuestion question, question_of(options, pace, pair));
      for (const double slo_ms : options.slos_ms) {
        question.slo.tpot_ms = slo_ms;
        OUTRIDER_ASSIGN_OR_RETURN(const CapacityCell cell,
                                  search_cell(question, options.contenders));
        add_bars(cell, bars);
        cells.push_back(to_json(cell));
      }
    }
  }
  outcome.figures = {{"seeds", options.question.seeds}, {"cells", std::move(cells)}};
  outcome.hold(bars);
  return outcome;
}

// ------------------------------------------------------------------------- given numbers of
// clients

Result<CapacityTuning> tuning_of(const CapacityOptions& options, const CapacityPace& pace,
                                 std::int64_t max_rows) {
  const CapacityTuning tuning = {.gamma = options.gamma.value_or(kGamma),
                                 .max_rows = options.max_rows.value_or(max_rows)};
  if (tuning.max_rows <= pace.last_row() && tuning.gamma < tuning.max_rows) return tuning;
  return invalid_argument(
      fmt::format("--max-batched-rows {}: expected more than --gamma {} and at most {}, the last "
                  "row of {}; a pass beyond it would cost nothing more",
                  tuning.max_rows, tuning.gamma, pace.last_row(), pace.name));
}

Result<CheckOutcome> run_once(const CapacityOptions& options, const CapacityPace& pace,
                              const CapacityPair& pair) {
  OUTRIDER_ASSIGN_OR_RETURN(const CapacityQuestion question, question_of(options, pace, pair));
  OUTRIDER_ASSIGN_OR_RETURN(const CapacityTuning tuning, tuning_of(options, pace, kMaxRows));
  const CapacityContender contender = options.contenders.back();
  SystemClock clock;
  const TimePoint started = clock.now();
  OUTRIDER_ASSIGN_OR_RETURN(const CapacityRun run,
                            run_capacity(question, contender, tuning, options.clients.front(), 1));
  const double real_s = to_seconds(clock.now() - started);
  const double virtual_s = to_seconds(question.load.end());
  CheckOutcome outcome{.passed = real_s <= kMaxRealTime * virtual_s};
  outcome.figures = {{"pace", pace.name},
                     {"pair", pair.name},
                     {"contender", name_of(contender)},
                     {"clients", options.clients.front()},
                     {"gamma", tuning.gamma},
                     {"max_rows", tuning.max_rows},
                     {"virtual_s", virtual_s},
                     {"real_s", real_s},
                     {"passes", run.server.passes},
                     {"rows", run.server.rows},
                     {"rounds", run.server.rounds},
                     {"tokens_per_s", run.tokens_per_s}};
  if (!run.clients.tpot_ms.empty()) {
    outcome.figures["tpot_p95_ms"] = quantile(run.clients.tpot_ms, 0.95);
  }
  return outcome;
}

void print_drafters(const std::string& title, const std::vector<DraftersAtLoad>& loads) {
  TextTable table{.heads = {"clients", "clients draft, tokens/s", "server drafts", "both",
                            "both over the better", "p95 of TPOT, ms", "by the server"},
                  .rows = {}};
  for (const DraftersAtLoad& load : loads) {
    std::vector<std::string> row = {std::to_string(load.clients)};
    std::string tpot;
    for (const DrafterFigures* one : load.all()) {
      row.push_back(fmt::format("{:.1f}", mean_of(one->tokens_per_s).value));
      tpot += fmt::format("{}{:.1f}", tpot.empty() ? "" : ", ", mean_of(one->tpot_p95_ms).value);
    }
    row.push_back(with_interval(load.both_over_better()));
    row.push_back(std::move(tpot));
    row.push_back(fmt::format("{:.0f} %", 100 * load.both.server_share()));
    table.rows.push_back(std::move(row));
  }
  std::printf("%s\n%s", title.c_str(), to_plain_text(table, 1).c_str());
  const auto changed = std::ranges::find_if(
      loads, [](const DraftersAtLoad& load) { return load.both.server_share() < 0.5; });
  const std::string until = changed == loads.begin() ? "at no load"
                            : changed == loads.end()
                                ? "at every load"
                                : fmt::format("below {} clients", changed->clients);
  std::printf("  Of what stands the server drafted most %s.\n\n", until.c_str());
}

Json to_json(const DraftersAtLoad& load) {
  const auto figures = [](const DrafterFigures& one) -> Json {
    return {{"tokens_per_s", to_json(mean_of(one.tokens_per_s))},
            {"tpot_p95_ms", to_json(mean_of(one.tpot_p95_ms))},
            {"server_share", one.server_share()}};
  };
  return {{"clients", load.clients},
          {"clients_draft", figures(load.by_clients)},
          {"server_drafts", figures(load.by_server)},
          {"both", figures(load.both)},
          {"both_over_better", to_json(load.both_over_better())}};
}

Result<CheckOutcome> compare_all(const CapacityOptions& options,
                                 const std::vector<CapacityPace>& paces,
                                 const std::vector<CapacityPair>& pairs) {
  CheckOutcome outcome{.passed = true};
  std::vector<Bar> bars;
  for (const CapacityPace& pace : paces) {
    OUTRIDER_ASSIGN_OR_RETURN(const CapacityTuning tuning,
                              tuning_of(options, pace, pace.last_row()));
    for (const CapacityPair& pair : pairs) {
      OUTRIDER_ASSIGN_OR_RETURN(const CapacityQuestion question, question_of(options, pace, pair));
      const std::string title = pace.name + ", " + pair.name;
      std::vector<DraftersAtLoad> loads;
      for (const std::size_t clients : options.clients) {
        OUTRIDER_ASSIGN_OR_RETURN(const DraftersAtLoad load,
                                  compare_drafters(question, tuning, clients));
        bars.push_back({fmt::format("both over the better, {} clients, {}", clients, title),
                        load.both_over_better(), kMinOverBetter});
        outcome.figures[title].push_back(to_json(load));
        loads.push_back(load);
      }
      print_drafters(title, loads);
    }
  }
  outcome.hold(bars);
  return outcome;
}

Result<CheckOutcome> run_capacity_check(const CapacityOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<CapacityPace> paces, paces_of(options));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<CapacityPair> pairs,
                            find_capacity_pairs(options.pairs));
  if (options.clients.size() > 1 && options.contenders != all_contenders()) {
    return invalid_argument(
        "--contender: with several --clients those are compared who may draft. Remedy: one of "
        "them, or no --contender");
  }
  if (options.clients.size() > 1) return compare_all(options, paces, pairs);
  if (!options.clients.empty()) return run_once(options, paces.front(), pairs.front());
  return search_all(options, paces, pairs);
}

void add_load_flags(CLI::App& command, CapacityOptions& options) {
  CapacityQuestion& question = options.question;
  ClientLoad& load = question.load;
  add_choice(command, "--arrivals", load.arrivals,
             "closed: a client thinks after its answer; poisson: its requests come regardless");
  add_duration(command, "--think", load.think, std::chrono::seconds(1), CLI::Range(0.0, 3600.0),
               "Seconds between a client's answers or requests, the mean");
  command
      .add_option("--prompt-tokens", load.prompt,
                  "Of a prompt those that no cache holds, the mean; half of it to 1.5 times")
      ->check(CLI::Range(1, 4096));
  command.add_option("--answer-tokens", load.answer, "Of an answer, the mean; in the same way")
      ->check(CLI::Range(2, 4096));
  add_duration(command, "--duration", options.duration, std::chrono::seconds(1),
               CLI::Range(1.0, 3600.0),
               "Seconds of virtual time that are measured, after a quarter as much");
  command.add_option("--seeds", question.seeds, "Runs over which sessions are averaged")
      ->check(CLI::Range(2, 100));
  command.add_option("--max-clients", question.max_clients, "Where the search ends")
      ->check(CLI::Range(1, 10000));
}

void add_device_flags(CLI::App& command, CapacityOptions& options) {
  CLI::Option* pace =
      command.add_option("--pace", options.paces, "Devices with a curve by rows, or all")
          ->delimiter(',');
  CLI::Option* curve =
      add_parsed(command, "--pass-curve", "Instead of --pace: a pass's ROWS:MS,ROWS:MS,..",
                 parse_capacity_curve,
                 [&options](PaceCurve read) { options.curve = std::move(read); })
          ->excludes(pace);
  const auto add = [&](const char* flag, std::optional<double>& value, const char* what,
                       double least) {
    command.add_option(flag, value, what)->check(CLI::Range(least, 1e5))->needs(curve);
  };
  add("--step-ms", options.step_ms,
      "With --pass-curve: a draft step on the edge [as table 9 has it]", 0.001);
  add("--one-way-ms", options.one_way_ms, "With --pass-curve: the link, one way [5]", 0);
  command.add_option("--network", options.network,
                     "A link profile's mean delay and rate, instead of the pace's link");
  command
      .add_option("--cloud-draft-share", options.question.draft_share,
                  "A co-located draft's pass over a target's of as many rows")
      ->check(CLI::Range(0.0001, 1.0));
}

}  // namespace

void add_capacity_check(CheckList& checks) {
  auto options = std::make_shared<CapacityOptions>();
  options->question.draft_share = kCloudDraftShare;
  CLI::App* command = checks.add(
      "capacity",
      "Sessions that one server carries until an SLO breaks: the shipped scheduler and others', "
      "each at its best draft length (emulated devices, virtual clock)",
      [options] { return run_capacity_check(*options); });
  add_device_flags(*command, *options);
  command->add_option("--pair", options->pairs, "Measured acceptances, or all")->delimiter(',');
  add_choice(*command, "--contender", options->contenders, "Which ones; with --clients N the last");
  CLI::Option* slos = command
                          ->add_option("--tpot-ms", options->slos_ms,
                                       "SLOs: 95 % of the answers take at most so long per token")
                          ->check(CLI::Range(0.1, 1e5))
                          ->delimiter(',');
  command->add_option("--ttft-ms", options->question.slo.ttft_ms, "And so long to the first token")
      ->check(CLI::Range(1.0, 1e6));
  add_load_flags(*command, *options);
  CLI::Option* clients =
      command
          ->add_option("--clients", options->clients,
                       "Instead of the search: one run of so many, timed (first pace and pair). "
                       "Several: drafting by clients, by a model on the server, and by both")
          ->check(CLI::Range(1, 10000))
          ->delimiter(',')
          ->excludes(slos);
  command->add_option("--gamma", options->gamma, "With --clients: drafted tokens a round [4]")
      ->check(CLI::Range(0, 64))
      ->needs(clients);
  command
      ->add_option("--max-batched-rows", options->max_rows,
                   "With --clients: the most rows of a pass [16; with several all of the curve]")
      ->check(CLI::Range(1, 100000))
      ->needs(clients);
}

}  // namespace outrider
