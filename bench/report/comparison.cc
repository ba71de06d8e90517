// SPDX-License-Identifier: Apache-2.0
#include "bench/report/comparison.h"
#include "bench/report/run_report.h"

#include <map>
#include <utility>

#include "bench/report/cell_report.h"
#include "common/base/json_record.h"

namespace outrider {
namespace {

// The values of a report's cell that are compared.
struct CellRecord {
  std::string setting;
  std::string variant;
  bool valid = false;
  std::vector<RequestSample> samples;
  Json whole;  // as the report has it

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("setting", self.setting);
    field("variant", self.variant);
    field("valid", self.valid);
    field("samples", self.samples);
  }
};

using CellName = std::pair<std::string, std::string>;
using Cells = std::map<CellName, CellRecord>;

std::string shown(const Json& report, const Json::json_pointer& field) {
  return report.contains(field) ? report[field].dump() : "nothing";
}

Status check_alike(const Json& first, const std::string& first_name, const Json& second,
                   const std::string& second_name) {
  for (const char* path : {"/models/target/fingerprint", "/models/draft/fingerprint", "/clock",
                           "/prompts/sha256", "/seed", "/max_tokens", "/setup/dtype",
                           "/setup/exits", "/setup/device", "/setup/threads", "/setup/learns"}) {
    const Json::json_pointer field(path);
    if (shown(first, field) == shown(second, field)) continue;
    return invalid_argument(std::string(path + 1) + " differs: " + shown(first, field) + " in " +
                            first_name + ", " + shown(second, field) + " in " + second_name +
                            ". Remedy: compare runs of the same models, prompts, clock and set-up");
  }
  return {};
}

// Cells of one name that were measured differently. A draft length is a result if it is the best of
// several, and does not affect plain decoding.
Status check_cells_alike(const CellRecord& first, const std::string& first_name,
                         const CellRecord& second, const std::string& second_name) {
  std::vector<const char*> paths = {"/link",        "/link_asked", "/pace",
                                    "/pass_pace",   "/step_pace",  "/exit_cost",
                                    "/temperature", "/strategy",   "/best_of_several"};
  const bool drafts = second.whole.value("strategy", "") != name_of(Strategy::kAr);
  if (drafts && !second.whole.value("best_of_several", false)) {
    paths.push_back("/spec_draft_n_max");
  }
  for (const char* path : paths) {
    const Json::json_pointer field(path);
    if (shown(first.whole, field) == shown(second.whole, field)) continue;
    return invalid_argument(
        second.setting + " / " + second.variant + ": " + (path + 1) +
        " differs: " + shown(first.whole, field) + " in " + first_name + ", " +
        shown(second.whole, field) + " in " + second_name +
        ". Remedy: run both over the same links and devices, with the same flags");
  }
  return {};
}

Result<Cells> cells_of(const Json& report, const std::string& name) {
  Cells cells;
  for (const Json& json : report["cells"]) {
    OUTRIDER_ASSIGN_OR_RETURN(CellRecord cell, read_json<CellRecord>(json, name + ", a cell"));
    cell.whole = json;
    cells.insert_or_assign({cell.setting, cell.variant}, std::move(cell));
  }
  return cells;
}

CellChange change_of(const CellRecord& first, const CellRecord& second) {
  // The ratio of the speeds of the first and the second.
  PairedSpeedup ratio = paired_speedup(second.samples, first.samples);
  CellChange change{second.setting, second.variant, ratio.pairs, std::nullopt};
  if (first.valid && second.valid) change.slowdown = std::move(ratio.speedup);
  return change;
}

}  // namespace

Result<Comparison> compare_reports(const Json& first, const std::string& first_name,
                                   const Json& second, const std::string& second_name) {
  OUTRIDER_RETURN_IF_ERROR(check_report(first, first_name));
  OUTRIDER_RETURN_IF_ERROR(check_report(second, second_name));
  OUTRIDER_RETURN_IF_ERROR(check_alike(first, first_name, second, second_name));
  OUTRIDER_ASSIGN_OR_RETURN(const Cells before, cells_of(first, first_name));
  OUTRIDER_ASSIGN_OR_RETURN(const Cells after, cells_of(second, second_name));
  Comparison comparison;
  for (const auto& [name, cell] : after) {
    const auto found = before.find(name);
    if (found == before.end()) {
      comparison.only_once.push_back(name.first + " / " + name.second);
    } else {
      OUTRIDER_RETURN_IF_ERROR(check_cells_alike(found->second, first_name, cell, second_name));
      comparison.cells.push_back(change_of(found->second, cell));
    }
  }
  for (const auto& [name, cell] : before) {
    if (!after.contains(name)) comparison.only_once.push_back(name.first + " / " + name.second);
  }
  return comparison;
}

}  // namespace outrider
