// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/summary.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "common/base/json_record.h"

namespace outrider {
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

// "at least" bars over these paces. Strategies that were not run leave none.
class BarList final {
 public:
  BarList(const GridResult& result, std::vector<PaperPace> paces, std::vector<Bar>& bars)
      : result_(result), paces_(std::move(paces)), bars_(bars) {}

  void add_mean(const std::string& variant, const std::string& base, double limit) {
    const auto mean = mean_speedup(result_, paces_, variant, base);
    if (mean) bars_.push_back({variant + " over " + base + ", mean", *mean, limit});
  }

  // hardest: the pace that has a limit of its own.
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
  // A prompt is drawn at all paces together.
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

}  // namespace outrider
