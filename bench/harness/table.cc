// The grid as rows for people. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "bench/harness/summary.h"

namespace outrider {
namespace {

std::string shown(std::optional<double> value, int digits, int width) {
  if (!value) return fmt::format("{:>{}}", "-", width);
  return fmt::format("{:{}.{}f}", *value, width, digits);
}

std::string with_interval(const std::optional<Estimate>& estimate, int digits) {
  if (!estimate) return "-";
  const auto number = [&](double value) { return fmt::format("{:.{}f}", value, digits); };
  if (!estimate->interval) return number(estimate->value);
  return fmt::format("{} [{}, {}]", number(estimate->value), number(estimate->interval->low),
                     number(estimate->interval->high));
}

// The paper's figure for the ratio that this row shows.
std::string paper_ratio(const PaperPace& pace, Strategy strategy, bool over_ar) {
  if (!pace.paper) return "-";
  if (over_ar && strategy == Strategy::kSd) return fmt::format("{:.2f}", pace.paper->ar_to_sd);
  if (over_ar && strategy == Strategy::kFsd) {
    return fmt::format("{:.2f}", pace.paper->ar_to_sd * pace.paper->sd_to_fsd);
  }
  if (!over_ar && strategy == Strategy::kFsd) return fmt::format("{:.2f}", pace.paper->sd_to_fsd);
  return "-";
}

std::string row(const GridResult& result, const GridCell& cell, const PaperPace& pace) {
  const AnswerFigures sum = sum_of(cell.answers);
  const std::optional<double> up =
      sum.all_tokens > 0 ? std::optional(sum.wire_up / sum.all_tokens) : std::nullopt;
  const std::string tpot = with_interval(tpot_of(cell.answers), 1);
  const std::string ar = with_interval(speedup_at(result, cell.setting, cell.variant, "ar"), 2);
  const std::string sd = with_interval(speedup_at(result, cell.setting, cell.variant, "sd"), 2);
  return fmt::format("  {:10} {:24} {:18} {:>5}  {:18} {:>5} ", cell.variant, tpot, ar,
                     paper_ratio(pace, cell.strategy, true), sd,
                     paper_ratio(pace, cell.strategy, false)) +
         shown(sum.tau(), 2, 6) + shown(sum.rows_per_pass(), 1, 6) + shown(sum.acceptance(), 2, 8) +
         shown(sum.miss_rate(), 2, 6) + shown(sum.partial_rate(), 2, 6) +
         shown(sum.mean_exit(), 1, 6) + shown(up, 0, 7) +
         fmt::format("{:6.0f} %\n", 100 * cell.speculation_on());
}

}  // namespace

std::string table(const GridResult& result, const std::vector<PaperPace>& paces) {
  std::string text;
  for (const PaperPace& pace : paces) {
    text += pace.name;
    const PaceCurve pass = pass_curve(pace);
    text += fmt::format(
        ": T_p {:.4g} ms, T_q {:.4g} ms of 1 row, {:.4g} of 5, T_c {:.4g} ms one way (all "
        "emulated)",
        pace.step_ms, pass.ms(1), pass.ms(5), pace.one_way_ms);
    if (pace.paper) {
      text += fmt::format("; the paper's tau {:.2f}, miss rate {:.2f}, Avg EE {:.0f}",
                          pace.paper->tau, pace.paper->miss_rate, pace.paper->mean_exit);
    }
    text +=
        "\n  strategy   ms/token [95 %]          over ar            paper  over sd            "
        "paper    tau  rows  accept  miss  part    EE  B/tok  spec. on\n";
    for (const GridCell& cell : result.cells) {
      if (cell.setting == pace.name) text += row(result, cell, pace);
    }
  }
  return text;
}

}  // namespace outrider
