// The FSD paper's tables and figures: what it prints, what its own formulas give from its own
// inputs, and what our demo pair does at its paces under the virtual clock.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/cost/token_cost.h"
#include "bench/harness/grid_flags.h"
#include "bench/harness/queue_ablation.h"
#include "bench/harness/summary.h"
#include "bench/harness/virtual_executor.h"
#include "bench/paper/fsd_tables.h"

namespace outrider {
namespace {

constexpr double kPaperTokens = 200;  // n
constexpr double kFar = 0.1;          // a formula this far from what is printed is listed
constexpr int kPaperGammaLength = 4;

struct ReproduceOptions {
  GridFlags grid;
  std::string what;
};

// What is found, line by line.
struct Findings {
  Json rows = Json::array();
  std::vector<std::string> differences;

  void compare(const std::string& what, double printed, double formula) {
    if (std::abs(formula / printed - 1) <= kFar) return;
    differences.push_back(
        fmt::format("{}: printed {:.2f}, by its own formula {:.2f}", what, printed, formula));
  }
};

std::string shown(std::optional<double> value) {
  return value ? fmt::format("{:7.2f}", *value) : fmt::format("{:>7}", "-");
}

std::optional<double> value_of(const std::optional<Estimate>& estimate) {
  return estimate ? std::optional(estimate->value) : std::nullopt;
}

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

class Quiet final : public GridListener {};

// The demo pair at these paces; nothing without prompts.
Result<std::optional<GridResult>> demo_run(const ReproduceOptions& options,
                                           const std::vector<std::string>& paces,
                                           std::vector<GridVariant> variants) {
  if (options.grid.prompts.empty()) return std::optional<GridResult>();
  GridFlags flags = options.grid;
  flags.paces = paces;
  flags.pass_times = {PassTimes::kPrinted};
  OUTRIDER_ASSIGN_OR_RETURN(const GridExperiment experiment,
                            make_experiment(flags, std::move(variants)));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<VirtualExecutor> executor,
                            VirtualExecutor::create(experiment.plan));
  Quiet quiet;
  OUTRIDER_ASSIGN_OR_RETURN(GridResult result, run_grid(experiment.plan, *executor, quiet));
  return std::optional(std::move(result));
}

// ------------------------------------------------------------------------------------- table 1

void reproduce_table1(Findings& findings) {
  const AnswerShape shape{
      .input_tokens = 100, .output_tokens = 500, .tokens_per_pass = 2.5, .drafted_per_pass = 4};
  // A million requests of 500 tokens are 500 million tokens.
  const double millions = 500;
  std::printf("%-12s %-20s %22s %22s %22s\n", "table 1", "dollars", "AR printed, formula",
              "cloud SD", "edge-cloud SD");
  for (const PaperCost& row : paper_table1()) {
    const std::string name = fmt::format("{} {}", row.provider, row.pair);
    const double ar = millions * plain_cost(row.target, shape);
    const double cloud = millions * cloud_draft_cost(row.target, row.draft, shape);
    const double edge = millions * edge_cost(row.target, shape).by_the_pass;
    const double stateless = millions * edge_cost(row.target, shape).stateless;
    std::printf("%-33s %10.0f %11.1f %10.0f %11.1f %10.0f %11.1f  stateless %.0f\n", name.c_str(),
                row.cloud_ar, ar, row.cloud_sd, cloud, row.edge_sd, edge, stateless);
    findings.compare(name + ", AR", row.cloud_ar, ar);
    findings.compare(name + ", cloud SD", row.cloud_sd, cloud);
    findings.compare(name + ", edge-cloud SD", row.edge_sd, edge);
    findings.rows.push_back({{"pair", name},
                             {"printed", {row.cloud_ar, row.cloud_sd, row.edge_sd}},
                             {"formula", {ar, cloud, edge}},
                             {"edge_stateless", stateless}});
  }
}

// ------------------------------------------------------------------------------ tables 6 and 8

Status reproduce_speeds(const ReproduceOptions& options, std::span<const PaperSpeed> printed,
                        Findings& findings) {
  std::vector<std::string> names;
  for (const PaperSpeed& row : printed) {
    if (std::ranges::find(names, row.pace) == names.end()) names.emplace_back(row.pace);
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::optional<GridResult> demo,
      demo_run(options, names,
               {variant_of(Strategy::kAr), variant_of(Strategy::kSd), variant_of(Strategy::kFsd)}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces(names));
  std::printf("%-12s %-22s  AR to SD: printed formula demo   SD to FSD: printed formula demo\n",
              "data set", "pace");
  for (const PaperSpeed& row : printed) {
    const auto pace = std::ranges::find(paces, row.pace, &PaperPace::name);
    const PaperTimes times{kPaperGammaLength * pace->step_ms, pace->pass_ms, pace->one_way_ms};
    const double sd = formula_ar_to_sd(times, row.tau, kPaperTokens);
    const double fsd = formula_sd_to_fsd(times, row.miss_rate);
    std::optional<double> demo_sd, demo_fsd;
    if (demo) {
      const std::string setting = with_times(*pace, PassTimes::kPrinted).name;
      demo_sd = value_of(speedup_at(*demo, setting, "sd", "ar"));
      demo_fsd = value_of(speedup_at(*demo, setting, "fsd", "sd"));
    }
    const std::string name = fmt::format("{} at {}", row.data_set, row.pace);
    std::printf("%-12s %-22s %17.2f %7.2f %s %19.2f %7.2f %s\n", std::string(row.data_set).c_str(),
                pace->name.c_str(), row.ar_to_sd, sd, shown(demo_sd).c_str(), row.sd_to_fsd, fsd,
                shown(demo_fsd).c_str());
    findings.compare(name + ", AR to SD", row.ar_to_sd, sd);
    findings.compare(name + ", SD to FSD", row.sd_to_fsd, fsd);
    findings.rows.push_back({{"data_set", row.data_set},
                             {"pace", row.pace},
                             {"ar_to_sd", {row.ar_to_sd, sd, json_of(demo_sd)}},
                             {"sd_to_fsd", {row.sd_to_fsd, fsd, json_of(demo_fsd)}},
                             {"tau", row.tau},
                             {"miss_rate", row.miss_rate}});
  }
  return {};
}

void list_contradictions_of_table6(Findings& findings) {
  std::map<std::string_view, std::pair<double, int>> sums;
  for (const PaperSpeed& row : paper_table6()) {
    sums[row.pace].first += row.ar_to_sd;
    ++sums[row.pace].second;
  }
  const auto& [sum, count] = sums["rtx-160m-13b"];
  findings.differences.push_back(fmt::format(
      "rtx-160m-13b: the printed average from AR to SD is 0.94, that of its rows {:.2f}",
      sum / count));
}

// ------------------------------------------------------------------------------------- table 7

Status reproduce_table7(const ReproduceOptions& options, Findings& findings) {
  const std::vector<int> workers = {3, 5, 10};
  std::vector<GridVariant> variants;
  for (const PaperQueues& row : paper_table7()) {
    for (const int count : workers) {
      GridVariant variant = variant_of(Strategy::kFsd);
      variant.client_queue = parse_name<QueueOrder>(row.client);
      variant.server_queue = parse_name<ReportQueue>(row.server);
      variant.workers = count;
      variant.name = fmt::format("{}/{}/{}", row.client, row.server, count);
      variants.push_back(std::move(variant));
    }
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, {"rtx-68m-7b"}, std::move(variants)));
  std::printf("table 7: misses, %%, with 3, 5 and 10 workers\n%-10s %-10s %24s %24s\n", "client",
              "server", "printed", "demo pair");
  for (const PaperQueues& row : paper_table7()) {
    Json ours = Json::array();
    std::string shown_ours;
    for (const int count : workers) {
      std::optional<double> left;
      if (demo) {
        const std::string name = fmt::format("{}/{}/{}", row.client, row.server, count);
        left = value_of(left_rate(*demo->find("rtx-68m-7b printed", name)));
      }
      ours.push_back(json_of(left ? std::optional(100 * *left) : std::nullopt));
      shown_ours += " " + shown(left ? std::optional(100 * *left) : std::nullopt);
    }
    std::printf("%-10s %-10s %8.2f%8.2f%8.2f %s\n", std::string(row.client).c_str(),
                std::string(row.server).c_str(), row.misses[0], row.misses[1], row.misses[2],
                shown_ours.c_str());
    findings.rows.push_back({{"client", row.client},
                             {"server", row.server},
                             {"printed", {row.misses[0], row.misses[1], row.misses[2]}},
                             {"demo", std::move(ours)}});
  }
  findings.differences.push_back(
      "table 7 fills its queues with 31 exits, the demo target has few: orders hardly differ "
      "there");
  return {};
}

// ------------------------------------------------------------------------------------- table 9

Status reproduce_table9(const ReproduceOptions& options, Findings& findings) {
  std::printf("table 9, ms: %8s %10s %10s\n", "rows", "A100", "Jetson");
  for (const double rows : {1.0, 2.0, 3.0, 4.0, 8.0, 12.0, 16.0, 32.0, 64.0}) {
    std::printf("%21.0f %10.2f %10.2f\n", rows, table9_pass_ms(rows), table9_step_ms(rows));
    findings.rows.push_back(
        {{"rows", rows}, {"pass_ms", table9_pass_ms(rows)}, {"step_ms", table9_step_ms(rows)}});
  }
  findings.differences.push_back(
      "table 9's Jetson times fall from 2 to 3 rows (8.02, 7.57) and are level at 4 (7.87); we "
      "keep "
      "8.02");
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, {"table9"},
                                     {variant_of(Strategy::kAr), variant_of(Strategy::kSd),
                                      variant_of(Strategy::kFsd), variant_of(Strategy::kMirror)}));
  if (demo) findings.rows.push_back({{"demo", cells_json(*demo)}});
  return {};
}

// ------------------------------------------------------------------------------------ figure 4

Status reproduce_figure4(const ReproduceOptions& options, Findings& findings) {
  if (options.grid.prompts.empty()) {
    return invalid_argument("reproduce fsd-fig4 is a run of the demo pair. Remedy: give --prompts");
  }
  std::vector<GridVariant> variants;
  for (const Strategy strategy : {Strategy::kAr, Strategy::kSd, Strategy::kFsd}) {
    for (int gamma = 1; gamma <= 10; ++gamma) {
      if (strategy == Strategy::kAr && gamma > 1) break;
      GridVariant variant = variant_of(strategy);
      variant.gamma = gamma;
      if (strategy != Strategy::kAr) variant.name += fmt::format(" γ={}", gamma);
      variants.push_back(std::move(variant));
    }
  }
  for (const int workers : {1, 2, 3, 5, 10, 15, 20, 30}) {
    GridVariant variant = variant_of(Strategy::kFsd);
    variant.name = fmt::format("fsd, {} workers", workers);
    variant.workers = workers;
    variant.gamma = kPaperGammaLength;
    variants.push_back(std::move(variant));
  }
  const std::vector<GridVariant> named = variants;
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, {"rtx-68m-7b"}, std::move(variants)));
  std::printf("figure 4, demo pair at rtx-68m-7b (printed pass times)\n");
  for (const GridVariant& variant : named) {
    if (variant.strategy == Strategy::kAr) continue;
    const std::string setting = "rtx-68m-7b printed";
    const auto over_ar = value_of(speedup_at(*demo, setting, variant.name, "ar"));
    const auto over_sd =
        value_of(speedup_at(*demo, setting, variant.name, fmt::format("sd γ={}", variant.gamma)));
    std::printf("%-18s over ar %s  over sd %s\n", variant.name.c_str(), shown(over_ar).c_str(),
                shown(over_sd).c_str());
    findings.rows.push_back(
        {{"variant", variant.name}, {"over_ar", json_of(over_ar)}, {"over_sd", json_of(over_sd)}});
  }
  return {};
}

// ------------------------------------------------------------------------------------ figure 6

void reproduce_figure6(Findings& findings) {
  std::printf("figure 6: r at which equation 9 gives a speed-up, by gamma and c\n");
  for (const double gamma : {4.0, 7.0, 10.0}) {
    for (const double ratio : {0.1, 0.3, 0.5, 0.65, 1.0}) {
      std::printf("gamma %2.0f, c %.2f:", gamma, ratio);
      Json contours = Json::object();
      for (const double speedup : {1.1, 1.2, 1.5, 2.0, 5.0}) {
        const auto miss_rate = equation9_contour(gamma, ratio, speedup);
        std::printf("  %.1fx %s", speedup, shown(miss_rate).c_str());
        contours[fmt::format("{:.1f}", speedup)] = json_of(miss_rate);
      }
      std::printf("\n");
      findings.rows.push_back({{"gamma", gamma}, {"c", ratio}, {"miss_rate", contours}});
    }
  }
  findings.differences.push_back(fmt::format(
      "appendix B says over 5x for c 0.5 and r 10 %; equation 9 gives {:.1f} with gamma 10",
      equation9(10, 0.5, 0.1)));
}

Status reproduce(const ReproduceOptions& options, Findings& findings) {
  if (options.what == "fsd-table6") {
    list_contradictions_of_table6(findings);
    return reproduce_speeds(options, paper_table6(), findings);
  }
  if (options.what == "fsd-table8") {
    return reproduce_speeds(options, {&paper_table8(), 1}, findings);
  }
  if (options.what == "fsd-table7") return reproduce_table7(options, findings);
  if (options.what == "fsd-table9") return reproduce_table9(options, findings);
  if (options.what == "fsd-fig4") return reproduce_figure4(options, findings);
  if (options.what == "fsd-table1") {
    reproduce_table1(findings);
  } else {
    reproduce_figure6(findings);
  }
  return {};
}

Result<CheckOutcome> run_reproduce(const ReproduceOptions& options) {
  Findings findings;
  OUTRIDER_RETURN_IF_ERROR(reproduce(options, findings));
  for (const std::string& one : findings.differences) std::printf("differs: %s\n", one.c_str());
  CheckOutcome outcome{.passed = true};
  outcome.figures = {{"what", options.what},
                     {"clock", "virtual"},
                     {"demo_pair", !options.grid.prompts.empty()},
                     {"rows", std::move(findings.rows)},
                     {"differences", findings.differences}};
  return outcome;
}

}  // namespace

void add_reproduce_check(CheckList& checks) {
  auto options = std::make_shared<ReproduceOptions>();
  options->grid.exits = "all";
  options->grid.pass_times = {PassTimes::kPrinted};
  CLI::App* command = checks.add(
      "reproduce",
      "The FSD paper beside its own formulas, and the demo pair at its paces (virtual clock)",
      [options] { return run_reproduce(*options); });
  command->add_option("WHAT", options->what, "fsd-table1, 6, 7, 8, 9, fsd-fig4, fsd-fig6")
      ->required()
      ->check(CLI::IsMember({"fsd-table1", "fsd-table6", "fsd-table7", "fsd-table8", "fsd-table9",
                             "fsd-fig4", "fsd-fig6"}));
  add_model_flags(*command, options->grid);
}

}  // namespace outrider
