// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/measured_points.h"

#include <algorithm>

#include "bench/cost/break_even.h"
#include "bench/paces/paces.h"
#include "common/base/json_record.h"

namespace outrider {
namespace {

struct JsonEstimate {
  double value = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("value", self.value);
  }
};

struct JsonCell {
  std::string setting, variant;
  bool valid = false;
  double round_trip_ms = 0;
  int gamma = 0;
  std::optional<JsonEstimate> tokens_per_s, exit_hit_rate;
  AnswerUse use;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("setting", self.setting);
    field("variant", self.variant);
    field("valid", self.valid);
    field("round_trip_ms", self.round_trip_ms);
    field("spec_draft_n_max", self.gamma);
    field("tokens_per_s", self.tokens_per_s);
    field("exit_hit_rate", self.exit_hit_rate);
    field("use", self.use);
  }

  double ms_per_token() const { return 1e3 / tokens_per_s->value; }
  // Of the passes after the prompt's.
  double pass_ms() const { return use.target_ms / (use.passes - 1); }
};

const JsonCell* variant_in(const std::vector<const JsonCell*>& cells, const std::string& variant) {
  const auto found = std::ranges::find(cells, variant, &JsonCell::variant);
  return found == cells.end() ? nullptr : *found;
}

// Nothing where plain decoding or plain speculation is missing, or the target's pace not known.
std::optional<MeasuredPoint> point_of(const std::vector<const JsonCell*>& cells, double hit_rate) {
  const JsonCell *ar = variant_in(cells, "ar"), *sd = variant_in(cells, "sd");
  if (ar == nullptr || sd == nullptr || sd->use.draft_steps <= 0) return std::nullopt;
  const JsonCell *fsd = variant_in(cells, "fsd"), *mirror = variant_in(cells, "mirror");
  const auto acceptance = acceptance_now(sd->use);
  auto pass = PaceCurve::create({{1, ar->pass_ms()}, {sd->gamma + 1, sd->pass_ms()}});
  if (!acceptance || !pass.ok()) return std::nullopt;
  MeasuredPoint point{.setting = sd->setting,
                      .gamma = sd->gamma,
                      .at = {},
                      .speeds = {},
                      .miss_rate = {},
                      .fsd_over_sd = {}};
  point.at = {.step_ms = sd->use.draft_ms / sd->use.draft_steps,
              .cloud_step_ms = ar->pass_ms() * kCloudDraftShare,
              .pass = *std::move(pass),
              .one_way_ms = sd->round_trip_ms / 2,
              .acceptance = *acceptance,
              .hit_rate = hit_rate};
  for (const JsonCell* hits : {fsd, mirror}) {
    if (hits != nullptr && hits->exit_hit_rate) point.at.hit_rate = hits->exit_hit_rate->value;
  }
  if (fsd != nullptr && fsd->gamma == sd->gamma) {
    if (fsd->exit_hit_rate) point.miss_rate = 1 - fsd->exit_hit_rate->value;
    point.fsd_over_sd = sd->ms_per_token() / fsd->ms_per_token();
  }
  const std::vector<MapChoice> law = map_choices(point.at, sd->gamma);
  for (const JsonCell* cell : cells) {
    MeasuredSpeed speed{
        .strategy = cell->variant, .measured_ms = cell->ms_per_token(), .law_ms = {}};
    const auto known = std::ranges::find_if(
        law, [&](const MapChoice& choice) { return choice.name == cell->variant; });
    if (known != law.end()) speed.law_ms = known->ms;
    point.speeds.push_back(std::move(speed));
  }
  return point;
}

}  // namespace

Result<std::vector<MeasuredPoint>> measured_points(const Json& report, const std::string& name,
                                                   double hit_rate) {
  if (!report.is_object() || !report.contains("cells") || !report["cells"].is_array()) {
    return data_loss(name + " lacks \"cells\"; is it a report.json of outrider-bench run?");
  }
  std::vector<JsonCell> cells;
  for (const Json& json : report["cells"]) {
    OUTRIDER_ASSIGN_OR_RETURN(JsonCell cell, read_json<JsonCell>(json, name + ", a cell"));
    const bool told = cell.tokens_per_s && cell.tokens_per_s->value > 0 && cell.use.passes > 1;
    if (cell.valid && told) cells.push_back(std::move(cell));
  }
  std::vector<MeasuredPoint> points;
  for (std::size_t begin = 0; begin < cells.size();) {
    std::vector<const JsonCell*> setting;
    while (begin < cells.size() &&
           (setting.empty() || cells[begin].setting == setting.front()->setting)) {
      setting.push_back(&cells[begin++]);
    }
    if (auto point = point_of(setting, hit_rate)) points.push_back(*std::move(point));
  }
  return points;
}

}  // namespace outrider
