// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "common/base/json_record.h"
#include "emulation/path/link_condition.h"

namespace outrider {
namespace {

// Nothing for a path without a rate.
std::optional<double> mbit_per_s(const PathCounts& counts) {
  if (counts.busy_ns == 0) return std::nullopt;
  return 8e3 * static_cast<double>(counts.bytes) / static_cast<double>(counts.busy_ns);
}

}  // namespace

std::vector<std::string> missing_evidence(const GridResult& result, const Claim& claim,
                                          std::size_t least_answers) {
  std::vector<std::string> missing;
  for (const std::string& variant : {claim.base, claim.variant}) {
    const GridCell* cell = result.find(claim.setting.name, variant);
    if (cell == nullptr) continue;
    if (cell->answers.size() < least_answers) {
      missing.push_back(fmt::format("\"{}\": {} has {} answers of the {} of --least-answers",
                                    claim.name, variant, cell->answers.size(), least_answers));
    }
    if (!cell->link) continue;
    for (const LinkCondition condition : conditions_of(claim.setting.link)) {
      if (has_met(*cell->link, condition)) continue;
      missing.push_back(
          fmt::format("\"{}\": {} met no {} of its link", claim.name, variant, name_of(condition)));
    }
  }
  return missing;
}

Json met_json(const GridSetting& setting, const std::optional<LinkCounts>& counts) {
  if (!counts) return {};
  Json met = Json::object();
  for (const LinkCondition condition : conditions_of(setting.link)) {
    met[name_of(condition)] = has_met(*counts, condition);
  }
  return {{"met", std::move(met)},
          {"counts", write_json(*counts)},
          {"mbit_per_s_up", write_json(mbit_per_s(counts->up))},
          {"mbit_per_s_down", write_json(mbit_per_s(counts->down))}};
}

namespace {

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

Json json_of(const std::optional<Estimate>& estimate) {
  return estimate ? to_json(*estimate) : Json();
}

std::vector<PaperPace> only(const std::vector<PaperPace>& paces, PaceGroup group,
                            std::optional<PassTimes> times = std::nullopt) {
  std::vector<PaperPace> kept;
  std::ranges::copy_if(paces, std::back_inserter(kept), [&](const PaperPace& pace) {
    return pace.group == group && (!times || pace.times == *times);
  });
  return kept;
}

// Bars with a lower limit over these paces. Strategies that did not run give no bar.
class BarList final {
 public:
  BarList(const GridResult& result, std::vector<PaperPace> paces, std::vector<Bar>& bars)
      : result_(result), paces_(std::move(paces)), bars_(bars) {}

  void add_mean(const std::string& variant, const std::string& base, double limit) {
    const auto mean = mean_speedup(result_, paces_, variant, base);
    if (mean) bars_.push_back({variant + " over " + base + ", mean", *mean, limit});
  }

  // hardest: the pace that has its own limit.
  void add_each(const std::string& variant, const std::string& base, double limit,
                const std::string& hardest = "", double hardest_limit = 0) {
    for (const PaperPace& pace : paces_) {
      const auto ratio = speedup_at(result_, pace.name, variant, base);
      if (!ratio) continue;
      bars_.push_back({variant + " over " + base + " at " + pace.name, *ratio,
                       pace.name == hardest ? hardest_limit : limit});
    }
  }

 private:
  const GridResult& result_;
  const std::vector<PaperPace> paces_;
  std::vector<Bar>& bars_;
};

// The two cells of a ratio.
struct CellPair {
  const GridCell* slow = nullptr;
  const GridCell* fast = nullptr;
};

std::optional<CellPair> find_pair(const GridResult& result, const std::string& setting,
                                  const std::string& variant, const std::string& base) {
  const CellPair pair{result.find(setting, base), result.find(setting, variant)};
  if (pair.slow == nullptr || pair.fast == nullptr) return std::nullopt;
  if (pair.slow->mismatches > 0 || pair.fast->mismatches > 0) return std::nullopt;
  return pair;
}

std::optional<double> log_ratio(const CellPair& pair, std::span<const std::size_t> indices) {
  const std::optional<double> slow = sum_at(pair.slow->answers, indices).tpot_ms();
  const std::optional<double> fast = sum_at(pair.fast->answers, indices).tpot_ms();
  if (!slow || !fast || *slow <= 0 || *fast <= 0) return std::nullopt;
  return std::log(*slow / *fast);
}

Json means_json(const GridResult& result, const std::vector<PaperPace>& paces) {
  const auto mean = [&](const char* variant, const char* base) {
    return json_of(mean_speedup(result, paces, variant, base));
  };
  return {{"paces", paces.size()},
          {"mirror_over_ar", mean("mirror", "ar")},
          {"mirror_over_sd", mean("mirror", "sd")},
          {"mirror_over_fsd", mean("mirror", "fsd")},
          {"fsd_over_sd", mean("fsd", "sd")}};
}

}  // namespace

std::optional<Estimate> speedup_at(const GridResult& result, const std::string& setting,
                                   const std::string& variant, const std::string& base) {
  const auto pair = find_pair(result, setting, variant, base);
  if (!pair) return std::nullopt;
  return speedup(pair->slow->answers, pair->fast->answers);
}

std::optional<Estimate> mean_speedup(const GridResult& result, const std::vector<PaperPace>& paces,
                                     const std::string& variant, const std::string& base) {
  std::vector<CellPair> pairs;
  for (const PaperPace& pace : paces) {
    const auto pair = find_pair(result, pace.name, variant, base);
    if (!pair) return std::nullopt;
    pairs.push_back(*pair);
  }
  if (pairs.empty()) return std::nullopt;
  // The bootstrap draws a prompt at all paces together.
  return bootstrap(pairs.front().fast->answers.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     double sum = 0;
                     for (const CellPair& pair : pairs) {
                       const std::optional<double> ratio = log_ratio(pair, indices);
                       if (!ratio) return std::nullopt;
                       sum += *ratio;
                     }
                     return std::exp(sum / static_cast<double>(pairs.size()));
                   });
}

Json summary_json(const GridResult& result, const std::vector<PaperPace>& paces) {
  Json summary = Json::object();
  const auto add = [&](const char* name, const std::vector<PaperPace>& kind) {
    if (!kind.empty()) summary[name] = means_json(result, kind);
  };
  add("measured", only(paces, PaceGroup::kTables5And8, PassTimes::kMeasured));
  add("printed", only(paces, PaceGroup::kTables5And8, PassTimes::kPrinted));
  add("table9", only(paces, PaceGroup::kTable9));
  return summary;
}

std::vector<Bar> judge(const GridResult& result, const std::vector<PaperPace>& paces) {
  std::vector<Bar> bars;
  BarList measured(result, only(paces, PaceGroup::kTables5And8, PassTimes::kMeasured), bars);
  measured.add_each("mirror", "ar", 1.1, "jetson-160m-13b", 0.97);
  BarList printed(result, only(paces, PaceGroup::kTables5And8, PassTimes::kPrinted), bars);
  printed.add_mean("mirror", "fsd", 1.2);
  printed.add_each("mirror", "fsd", 1.1);
  printed.add_mean("mirror", "sd", 1.5);
  printed.add_each("mirror", "ar", 1.1);
  BarList(result, only(paces, PaceGroup::kTable9), bars).add_each("mirror", "ar", 0.97);
  BarList(result, only(paces, PaceGroup::kUnpaced), bars).add_each("mirror", "ar", 0.97);
  return bars;
}

Json cell_json(const GridResult& result, const GridCell& cell) {
  const AnswerFigures sum = sum_of(cell.answers);
  const auto per_token = [&](double bytes) {
    return json_of(sum.all_tokens > 0 ? std::optional(bytes / sum.all_tokens) : std::nullopt);
  };
  const std::optional<Estimate> tpot = tpot_of(cell.answers);
  return {{"pace", cell.setting},
          {"variant", cell.variant},
          {"strategy", name_of(cell.strategy)},
          {"prompts", cell.answers.size()},
          {"mismatches", cell.mismatches},
          {"tokens", sum.tokens},
          {"tpot_ms", json_of(tpot)},
          {"tokens_per_s", tpot && tpot->value > 0 ? Json(1e3 / tpot->value) : Json()},
          {"over_ar", json_of(speedup_at(result, cell.setting, cell.variant, "ar"))},
          {"over_sd", json_of(speedup_at(result, cell.setting, cell.variant, "sd"))},
          {"tau", json_of(sum.tau())},
          {"passes_per_token", json_of(sum.passes_per_token())},
          {"rows_per_pass", json_of(sum.rows_per_pass())},
          {"pass_ms", json_of(sum.pass_ms())},
          {"acceptance", json_of(sum.acceptance())},
          {"draft_steps", sum.draft_steps},
          {"payload_up_per_token", per_token(sum.payload_up)},
          {"payload_down_per_token", per_token(sum.payload_down)},
          {"wire_up_per_token", per_token(sum.wire_up)},
          {"wire_down_per_token", per_token(sum.wire_down)},
          {"passes_by_rows", sum.passes_by_rows},
          {"exit_passes_by_rows", sum.exit_passes_by_rows},
          {"predraft", sum.predraft ? write_json(*sum.predraft) : Json()},
          {"drafted_per_branch", sum.drafted_per_branch},
          {"accepted_per_branch", sum.accepted_per_branch},
          {"miss_rate", json_of(sum.miss_rate())},
          {"partial_rate", json_of(sum.partial_rate())},
          {"mean_exit", json_of(sum.mean_exit())},
          {"speculation", cell.speculation},
          {"speculation_on", cell.speculation_on()}};
}

Json cells_json(const GridResult& result) {
  Json cells = Json::array();
  for (const GridCell& cell : result.cells) cells.push_back(cell_json(result, cell));
  return cells;
}

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

// The paper's figure for the ratio in this row.
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
