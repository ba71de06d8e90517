// The grid as rows for people. SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "bench/harness/summary.h"

namespace outrider {
namespace {

template <typename... Values>
std::string format(const char* pattern, Values... values) {
  char text[200];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string shown(std::optional<double> value, const char* pattern, int width) {
  return format("%*s", width, value ? format(pattern, *value).c_str() : "-");
}

std::string with_interval(const std::optional<Estimate>& estimate, const char* pattern) {
  if (!estimate) return "-";
  std::string text = format(pattern, estimate->value);
  if (!estimate->interval) return text;
  return text + " [" + format(pattern, estimate->interval->low) + ", " +
         format(pattern, estimate->interval->high) + "]";
}

// The paper's figure for the ratio that this row shows.
std::string paper_ratio(const PaperPace& pace, const std::string& strategy, bool over_ar) {
  if (!pace.paper) return "-";
  if (over_ar && strategy == "sd") return format("%.2f", pace.paper->ar_to_sd);
  if (over_ar && strategy == "fsd") {
    return format("%.2f", pace.paper->ar_to_sd * pace.paper->sd_to_fsd);
  }
  if (!over_ar && strategy == "fsd") return format("%.2f", pace.paper->sd_to_fsd);
  return "-";
}

std::string row(const GridResult& result, const GridCell& cell, const PaperPace& pace) {
  const AnswerFigures sum = sum_of(cell.answers);
  const std::optional<double> up =
      sum.all_tokens > 0 ? std::optional(sum.wire_up / sum.all_tokens) : std::nullopt;
  const std::string tpot = with_interval(tpot_of(cell.answers), "%.1f");
  const std::string ar =
      with_interval(speedup_at(result, cell.setting, cell.variant, "ar"), "%.2f");
  const std::string sd =
      with_interval(speedup_at(result, cell.setting, cell.variant, "sd"), "%.2f");
  return format("  %-10s %-24s %-18s %5s  %-18s %5s ", cell.variant.c_str(), tpot.c_str(),
                ar.c_str(), paper_ratio(pace, cell.strategy, true).c_str(), sd.c_str(),
                paper_ratio(pace, cell.strategy, false).c_str()) +
         shown(sum.tau(), "%.2f", 6) + shown(sum.rows_per_pass(), "%.1f", 6) +
         shown(sum.acceptance(), "%.2f", 8) + shown(sum.miss_rate(), "%.2f", 6) +
         shown(up, "%.0f", 7) + "\n";
}

}  // namespace

std::string table(const GridResult& result, const std::vector<PaperPace>& paces) {
  std::string text;
  for (const PaperPace& pace : paces) {
    text += pace.name;
    text += format(": T_p %.4g ms, T_q %.4g ms, T_c %.4g ms one way (all emulated)", pace.step_ms,
                   pace.pass_ms, pace.one_way_ms);
    if (pace.paper) {
      text +=
          format("; the paper's tau %.2f, miss rate %.2f", pace.paper->tau, pace.paper->miss_rate);
    }
    text +=
        "\n  strategy   ms/token [95 %]          over ar            paper  over sd            "
        "paper    tau  rows  accept  miss  B/tok\n";
    for (const GridCell& cell : result.cells) {
      if (cell.setting == pace.name) text += row(result, cell, pace);
    }
  }
  return text;
}

}  // namespace outrider
