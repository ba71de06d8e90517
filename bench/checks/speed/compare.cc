// Compares two reports of `run` and lists what became slower. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <memory>

#include "bench/checks/checks.h"
#include "bench/report/comparison.h"
#include "bench/report/run_report.h"
#include "common/base/files.h"

namespace outrider {
namespace {

struct CompareOptions {
  std::string first;
  std::string second;
  std::string fail_above = "5%";
};

// "5%" gives 0.05.
Result<double> share_of(const std::string& text) {
  const bool percent = text.ends_with('%');
  const std::string digits = percent ? text.substr(0, text.size() - 1) : text;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (!percent || error != std::errc() || end != digits.data() + digits.size() || !(value >= 0) ||
      value > 1000) {
    return invalid_argument("--fail-above " + text + ": expected a share such as 5%");
  }
  return value / 100;
}

Json change_json(const CellChange& change, double limit) {
  return {{"setting", change.setting},
          {"variant", change.variant},
          {"pairs", change.pairs},
          {"slowdown", change.slowdown ? to_json(*change.slowdown) : Json()},
          {"regressed", change.regressed(limit)}};
}

void print(const CellChange& change, double limit) {
  std::string text = "not comparable: a report's cell is invalid or empty; repeat its run";
  if (change.slowdown) {
    const Estimate& slowdown = *change.slowdown;
    text = fmt::format("{:+.1f} %", 100 * (slowdown.value - 1));
    if (slowdown.interval) {
      text += fmt::format(" [{:+.1f}, {:+.1f}]", 100 * (slowdown.interval->low - 1),
                          100 * (slowdown.interval->high - 1));
    }
  }
  std::printf("%-30s %-12s time per token %s, %zu pairs%s\n", change.setting.c_str(),
              change.variant.c_str(), text.c_str(), change.pairs,
              change.regressed(limit) ? "  REGRESSION" : "");
}

Result<CheckOutcome> run_compare(const CompareOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const double limit, share_of(options.fail_above));
  OUTRIDER_ASSIGN_OR_RETURN(const Json first, read_report(options.first));
  OUTRIDER_ASSIGN_OR_RETURN(const Json second, read_report(options.second));
  OUTRIDER_ASSIGN_OR_RETURN(const Comparison comparison,
                            compare_reports(first, options.first, second, options.second));
  CheckOutcome outcome{.passed = true};
  Json cells = Json::array();
  bool judged = false;
  for (const CellChange& change : comparison.cells) {
    print(change, limit);
    cells.push_back(change_json(change, limit));
    outcome.regressed = outcome.regressed || change.regressed(limit);
    judged = judged || (change.slowdown && change.slowdown->interval);
    outcome.passed = outcome.passed && change.slowdown.has_value();
  }
  for (const std::string& name : comparison.only_once) {
    std::fprintf(stderr, "only in one report: %s\n", name.c_str());
  }
  if (!judged) {
    outcome.mark_inconclusive("no cell is in both reports with at least two answers");
  }
  outcome.figures = {{"fail_above", limit},
                     {"regressed", outcome.regressed},
                     {"cells", std::move(cells)},
                     {"only_in_one", comparison.only_once}};
  return outcome;
}

}  // namespace

void add_compare_check(CheckList& checks) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = checks.add(
      "compare", "Compare two report.json of run, prompt by prompt; exit code 3: a regression",
      [options] { return run_compare(*options); });
  command->add_option("A", options->first, "The report before")->required();
  command->add_option("B", options->second, "The report after")->required();
  command->add_option("--fail-above", options->fail_above,
                      "A slowdown is a regression if its whole interval is above this");
}

}  // namespace outrider
