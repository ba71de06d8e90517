// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/evidence.h"

#include <fmt/core.h>

#include "bench/link/path/link_condition.h"
#include "common/base/json_record.h"

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

}  // namespace outrider
