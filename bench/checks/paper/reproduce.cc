// The FSD paper's tables and figures in four columns: printed; by the paper's own formulas from its
// own inputs; a pair without models with the paper's acceptance (synthetic); and our demo pair. The
// last two run at the paper's paces under the virtual clock. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/checks/paper/reproduce_runs.h"
#include "bench/checks/paper/reproduce_trees.h"
#include "bench/cost/cell_cost.h"
#include "bench/harness/summary.h"
#include "bench/paper/fsd_tables.h"
#include "sim/synthetic_pair.h"

namespace outrider {
namespace {

constexpr double kPaperTokens = 200;  // n

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

// The result of a run at one row's setting.
struct SpeedsFound {
  std::optional<double> ar_to_sd, sd_to_fsd, miss_rate, mean_exit;
};

SpeedsFound speeds_at(const std::optional<GridResult>& run, const std::string& setting) {
  SpeedsFound found;
  if (!run) return found;
  found.ar_to_sd = value_of(speedup_at(*run, setting, "sd", "ar"));
  found.sd_to_fsd = value_of(speedup_at(*run, setting, "fsd", "sd"));
  if (const GridCell* cell = run->find(setting, "fsd")) {
    const AnswerFigures sum = sum_of(cell->answers);
    found.miss_rate = not_begun(sum);
    found.mean_exit = sum.mean_exit();
  }
  return found;
}

void add_row(const PaperSpeed& row, const PaperPace& pace, const SpeedsFound& synthetic,
             const SpeedsFound& demo, Findings& findings) {
  const PaperTimes times{kPaperDraftLength * pace.step_ms, pace.pass_ms, pace.one_way_ms};
  const double sd = formula_ar_to_sd(times, row.tau, kPaperTokens);
  const double fsd = formula_sd_to_fsd(times, row.miss_rate);
  std::printf("%-12s %-21s %7.2f %7.2f %s %s  %7.2f %7.2f %s %s  %7.2f %s %s  %4.0f %s\n",
              std::string(row.data_set).c_str(), pace.name.c_str(), row.ar_to_sd, sd,
              shown(synthetic.ar_to_sd).c_str(), shown(demo.ar_to_sd).c_str(), row.sd_to_fsd, fsd,
              shown(synthetic.sd_to_fsd).c_str(), shown(demo.sd_to_fsd).c_str(), row.miss_rate,
              shown(synthetic.miss_rate).c_str(), shown(demo.miss_rate).c_str(), row.mean_exit,
              shown(synthetic.mean_exit).c_str());
  const std::string name = fmt::format("{} at {}", row.data_set, row.pace);
  findings.compare(name + ", AR to SD", row.ar_to_sd, sd);
  findings.compare(name + ", SD to FSD", row.sd_to_fsd, fsd);
  const auto columns = [](double printed, std::optional<double> formula,
                          std::optional<double> made_up, std::optional<double> pair) {
    return Json{{"printed", printed},
                {"formula", json_of(formula)},
                {"synthetic", json_of(made_up)},
                {"demo", json_of(pair)}};
  };
  findings.rows.push_back(
      {{"data_set", row.data_set},
       {"pace", row.pace},
       {"tau", row.tau},
       {"ar_to_sd", columns(row.ar_to_sd, sd, synthetic.ar_to_sd, demo.ar_to_sd)},
       {"sd_to_fsd", columns(row.sd_to_fsd, fsd, synthetic.sd_to_fsd, demo.sd_to_fsd)},
       {"miss_rate", columns(row.miss_rate, {}, synthetic.miss_rate, demo.miss_rate)},
       {"mean_exit", columns(row.mean_exit, {}, synthetic.mean_exit, demo.mean_exit)}});
}

Status reproduce_speeds(const ReproduceOptions& options, std::span<const PaperSpeed> printed,
                        Findings& findings) {
  std::vector<std::string> names;
  for (const PaperSpeed& row : printed) {
    if (std::ranges::find(names, row.pace) == names.end()) names.emplace_back(row.pace);
  }
  const std::vector<GridVariant> variants = {variant_of(Strategy::kAr), variant_of(Strategy::kSd),
                                             with_paper_workers("fsd")};
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, names, variants));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> synthetic,
                            synthetic_run(options, printed, variants));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces(names));
  std::printf("%-34s %-31s  %-31s  %-23s  %s\n", "", "AR to SD", "SD to FSD", "misses",
              "mean exit");
  std::printf("%-34s %7s %7s %7s %7s  %7s %7s %7s %7s  %7s %7s %7s  %4s %7s\n", "data set, pace",
              "printed", "formula", "synth.", "demo", "printed", "formula", "synth.", "demo",
              "printed", "synth.", "demo", "pr.", "synth.");
  double misses_printed = 0, misses_synthetic = 0;
  for (const PaperSpeed& row : printed) {
    const auto pace = std::ranges::find(paces, row.pace, &PaperPace::name);
    const SpeedsFound found = speeds_at(synthetic, synthetic_setting(row));
    misses_printed += row.miss_rate;
    misses_synthetic += found.miss_rate.value_or(0);
    add_row(row, *pace, found, speeds_at(demo, with_times(*pace, PassTimes::kPrinted).name),
            findings);
  }
  const auto rows = static_cast<double>(printed.size());
  std::printf("mean misses: printed %.3f, synthetic %.3f\n", misses_printed / rows,
              misses_synthetic / rows);
  findings.rows.push_back({{"mean_misses",
                            {{"printed", misses_printed / rows},
                             {"synthetic", misses_synthetic / rows},
                             {"exit_scale", exit_scale_of(options)}}}});
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
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, {"table9"},
                                     {variant_of(Strategy::kAr), variant_of(Strategy::kSd),
                                      variant_of(Strategy::kFsd), variant_of(Strategy::kMirror)}));
  if (!demo) return {};
  std::printf("demo pair, times plain cloud decoding\n%-12s %7s %7s %7s\n", "", "sd", "fsd",
              "mirror");
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces({"table9"}));
  for (const PaperPace& pace : paces) {
    std::string line;
    for (const char* variant : {"sd", "fsd", "mirror"}) {
      line += " " + shown(value_of(speedup_at(*demo, pace.name, variant, "ar")));
    }
    std::printf("%-12s%s\n", pace.name.c_str(), line.c_str());
  }
  findings.rows.push_back({{"demo", cells_json(*demo)}});
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
}

Status reproduce(const ReproduceOptions& options, Findings& findings) {
  if (options.what == "fsd-table6") return reproduce_speeds(options, paper_table6(), findings);
  if (options.what == "fsd-table8") {
    return reproduce_speeds(options, {&paper_table8(), 1}, findings);
  }
  if (!options.what.starts_with("fsd-")) return reproduce_trees(options, findings);
  if (options.what == "fsd-table7") return reproduce_table7(options, findings);
  if (options.what == "fsd-table9") return reproduce_table9(options, findings);
  if (options.what == "fsd-fig4") return reproduce_figure4(options, findings);
  if (options.what == "fsd-fig7") return reproduce_figure7(options, findings);
  if (options.what == "fsd-table1") {
    reproduce_table1(findings);
  } else {
    reproduce_figure6(findings);
  }
  return {};
}

Result<CheckOutcome> run_reproduce(const ReproduceOptions& options) {
  Findings findings{.differences = contradictions_of(options.what)};
  OUTRIDER_RETURN_IF_ERROR(reproduce(options, findings));
  for (const std::string& one : findings.differences) std::printf("differs: %s\n", one.c_str());
  CheckOutcome outcome{.passed = true};
  outcome.figures = {{"what", options.what},
                     {"clock", "virtual"},
                     {"demo_pair", !options.grid.prompts.empty()},
                     {"exit_scale", exit_scale_of(options)},
                     {"rows", std::move(findings.rows)},
                     {"differences", findings.differences}};
  return outcome;
}

}  // namespace

void add_reproduce_check(CheckList& checks) {
  auto options = std::make_shared<ReproduceOptions>();
  options->grid.plan.exits = "all";
  options->grid.pass_times = {PassTimes::kPrinted};
  CLI::App* command = checks.add(
      "reproduce", "FSD, LEVER and EdgeLLM beside the demo pair at their paces (virtual clock)",
      [options] { return run_reproduce(*options); });
  std::vector<std::string> known = {"fsd-table1", "fsd-table6", "fsd-table7", "fsd-table8",
                                    "fsd-table9", "fsd-fig4",   "fsd-fig6",   "fsd-fig7"};
  for (std::string& one : tree_reproductions()) known.push_back(std::move(one));
  command->add_option("WHAT", options->what, "The table or figure")
      ->required()
      ->check(CLI::IsMember(known));
  command
      ->add_option("--exit-scale", options->exit_scale,
                   "Weight of the token match of synthetic exits [as fitted to table 6]")
      ->check(CLI::Range(0.0, 10.0));
  add_model_flags(*command, options->grid);
}

}  // namespace outrider
