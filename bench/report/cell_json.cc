// SPDX-License-Identifier: Apache-2.0
#include "bench/report/cell_json.h"

#include "bench/harness/bar.h"
#include "bench/harness/evidence.h"
#include "common/base/json_record.h"

namespace outrider {
namespace {

template <typename T>
Json json_or_null(const std::optional<T>& value) {
  return value ? to_json(*value) : Json();
}

}  // namespace

Json to_json(const Spread& spread) {
  return {{"count", spread.count},  {"mean", to_json(spread.mean)},
          {"sd", spread.deviation}, {"p50", spread.p50},
          {"p90", spread.p90},      {"p95", spread.p95},
          {"p99", spread.p99}};
}

Json to_json(const CellReport& cell, RunClock clock) {
  const AnswerFigures& sum = cell.sum;
  const auto per_token = [&](double bytes) {
    return write_json(sum.all_tokens > 0 ? std::optional(bytes / sum.all_tokens) : std::nullopt);
  };
  return {{"setting", cell.setting->name},
          {"network", cell.setting->network},
          {"pace", cell.setting->pace},
          {"temperature", cell.setting->sampling.temperature},
          {"variant", cell.variant->name},
          {"strategy", name_of(cell.variant->strategy)},
          {"spec_draft_n_max", cell.gamma},
          {"draft_place", name_of(cell.variant->place)},
          {"device", device_name(cell)},
          {"round_trip_ms", round_trip_ms(cell)},
          {"clock", name_of(clock)},
          {"link", cell.link_kind},
          {"link_asked", cell.setting->link.description()},
          {"link_in_run", met_json(*cell.setting, cell.link)},
          {"exit_cost", cell.setting->exit_cost},
          {"pass_pace", cell.setting->pass.to_string()},
          {"step_pace", cell.setting->step.to_string()},
          {"best_of_several", !cell.variant->best_of.empty()},
          {"rtt_p50_ms", write_json(cell.rtt_p50_ms)},
          {"valid", cell.valid()},
          {"requests", cell.requests},
          {"failed", cell.failures},
          {"wrong_text", cell.mismatches},
          {"deadline_missed", cell.deadline_missed},
          {"goodput", write_json(cell.goodput)},
          {"ttft_ms", json_or_null(cell.ttft_ms)},
          {"tpot_ms", json_or_null(cell.tpot_ms)},
          {"inter_chunk_ms", json_or_null(cell.inter_chunk_ms)},
          {"e2el_ms", json_or_null(cell.e2el_ms)},
          {"tokens", sum.all_tokens},
          {"tokens_per_s", json_or_null(cell.tokens_per_s)},
          {"over_ar", json_or_null(cell.over_ar)},
          {"acceptance", json_or_null(cell.acceptance)},
          {"acceptance_by_position", cell.accepted_by_position},
          {"exit_hit_rate", json_or_null(cell.exit_hit_rate)},
          {"speculation_on", cell.speculation_on},
          {"agreement", write_json(cell.agreement)},
          {"target_passes", sum.passes},
          {"target_rows", sum.rows},
          {"tokens_per_pass", write_json(sum.tau())},
          {"target_ms_per_token", per_token(sum.compute_ms)},
          {"draft_ms_per_token", per_token(sum.draft_ms)},
          {"payload_up_per_token", per_token(sum.payload_up)},
          {"payload_down_per_token", per_token(sum.payload_down)},
          {"wire_up_per_token", per_token(sum.wire_up)},
          {"wire_down_per_token", per_token(sum.wire_down)},
          {"use", write_json(cell.use)},
          {"cost", cell.cost ? to_json(*cell.cost) : Json()},
          {"samples", write_json(cell.samples)}};
}

}  // namespace outrider
