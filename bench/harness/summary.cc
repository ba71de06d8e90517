// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/summary.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "common/base/json_record.h"

namespace outrider {
namespace {

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

Json json_of(const std::optional<Estimate>& estimate) {
  return estimate ? to_json(*estimate) : Json();
}

// A ratio at each of these paces; nothing if it is not known at all of them.
std::optional<std::vector<double>> ratios(const GridResult& result,
                                          const std::vector<PaperPace>& paces,
                                          const std::string& variant, const std::string& base) {
  std::vector<double> found;
  for (const PaperPace& pace : paces) {
    const std::optional<Estimate> one = speedup_at(result, pace.name, variant, base);
    if (!one) return std::nullopt;
    found.push_back(one->value);
  }
  if (found.empty()) return std::nullopt;
  return found;
}

std::optional<double> mean(const std::optional<std::vector<double>>& values) {
  if (!values) return std::nullopt;
  return std::accumulate(values->begin(), values->end(), 0.0) / static_cast<double>(values->size());
}

std::optional<double> least(const std::optional<std::vector<double>>& values) {
  if (!values) return std::nullopt;
  return *std::min_element(values->begin(), values->end());
}

std::vector<PaperPace> only(const std::vector<PaperPace>& paces, PaceGroup group) {
  std::vector<PaperPace> kept;
  std::copy_if(paces.begin(), paces.end(), std::back_inserter(kept),
               [&](const PaperPace& pace) { return pace.group == group; });
  return kept;
}

void add_bar(std::vector<Bar>& bars, const std::string& name, std::optional<double> value,
             double wanted) {
  if (value) bars.push_back({name, *value, wanted});
}

}  // namespace

std::optional<Estimate> speedup_at(const GridResult& result, const std::string& setting,
                                   const std::string& variant, const std::string& base) {
  const GridCell* fast = result.find(setting, variant);
  const GridCell* slow = result.find(setting, base);
  if (fast == nullptr || slow == nullptr) return std::nullopt;
  if (fast->mismatches > 0 || slow->mismatches > 0) return std::nullopt;
  return speedup(slow->answers, fast->answers);
}

Summary summarise(const GridResult& result, const std::vector<PaperPace>& paces) {
  return {.mirror_over_sd = mean(ratios(result, paces, "mirror", "sd")),
          .mirror_over_fsd = mean(ratios(result, paces, "mirror", "fsd")),
          .fsd_over_sd = mean(ratios(result, paces, "fsd", "sd")),
          .min_mirror_over_ar = least(ratios(result, paces, "mirror", "ar"))};
}

std::vector<Bar> judge(const GridResult& result, const std::vector<PaperPace>& paces,
                       PassTimes times) {
  const std::vector<PaperPace> devices = only(paces, PaceGroup::kTables5And8);
  std::vector<Bar> bars;
  if (times == PassTimes::kPrinted) {
    const auto over_fsd = ratios(result, devices, "mirror", "fsd");
    add_bar(bars, "mirror over fsd, mean", mean(over_fsd), 1.2);
    add_bar(bars, "mirror over fsd, least", least(over_fsd), 1.1);
    add_bar(bars, "mirror over sd, mean", mean(ratios(result, devices, "mirror", "sd")), 1.5);
    add_bar(bars, "mirror over ar, least", least(ratios(result, devices, "mirror", "ar")), 1.1);
  } else {
    for (const PaperPace& pace : devices) {
      const bool hardest = pace.name == "jetson-160m-13b";
      add_bar(bars, "mirror over ar at " + pace.name, least(ratios(result, {pace}, "mirror", "ar")),
              hardest ? 0.97 : 1.1);
    }
  }
  const auto ar_at = [&](PaceGroup group) {
    return least(ratios(result, only(paces, group), "mirror", "ar"));
  };
  add_bar(bars, "mirror over ar at table 9, least", ar_at(PaceGroup::kTable9), 0.97);
  add_bar(bars, "mirror over ar unpaced, least", ar_at(PaceGroup::kUnpaced), 0.97);
  return bars;
}

Json to_json(const Summary& summary) {
  return {{"mirror_over_sd", json_of(summary.mirror_over_sd)},
          {"mirror_over_fsd", json_of(summary.mirror_over_fsd)},
          {"fsd_over_sd", json_of(summary.fsd_over_sd)},
          {"min_mirror_over_ar", json_of(summary.min_mirror_over_ar)}};
}

Json to_json(const std::vector<Bar>& bars) {
  Json json = Json::array();
  for (const Bar& bar : bars) {
    json.push_back(
        {{"name", bar.name}, {"value", bar.value}, {"least", bar.least}, {"met", bar.met()}});
  }
  return json;
}

Json to_json(const Estimate& estimate) {
  Json json = {{"value", estimate.value}, {"low", Json()}, {"high", Json()}};
  if (estimate.interval) {
    json["low"] = estimate.interval->low;
    json["high"] = estimate.interval->high;
  }
  return json;
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
          {"predraft", sum.predraft ? write_json(*sum.predraft) : Json()},
          {"drafted_per_branch", sum.drafted_per_branch},
          {"accepted_per_branch", sum.accepted_per_branch},
          {"miss_rate", json_of(sum.miss_rate())},
          {"speculation", cell.speculation}};
}

}  // namespace outrider
