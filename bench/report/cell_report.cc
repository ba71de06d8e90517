// SPDX-License-Identifier: Apache-2.0
#include "bench/report/cell_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bench/harness/summary.h"
#include "bench/paces/paces.h"
#include "common/base/json_record.h"

namespace outrider {

AnswerUse use_of(std::span<const EdgeAnswer* const> answers) {
  AnswerUse use;
  const auto count = static_cast<double>(answers.size());
  const auto add = [count](double& mean, double value) { mean += value / count; };
  for (const EdgeAnswer* answer : answers) {
    const AnswerRecord& record = answer->record;
    add(use.input_tokens, static_cast<double>(record.stats.prompt_tokens));
    add(use.output_tokens, static_cast<double>(record.stats.completion_tokens));
    add(use.passes, static_cast<double>(record.stats.passes));
    add(use.rounds, static_cast<double>(record.stats.num_drafts));
    add(use.drafted, static_cast<double>(record.stats.num_draft_tokens));
    add(use.first_ms, record.stats.ttft_ms.value_or(0));
    add(use.decode_ms, record.stats.decode_ms.value_or(0));
    add(use.first_target_ms, to_ms(record.stats.first_verdict.compute));
    add(use.target_ms, to_ms(record.stats.target_compute - record.stats.first_verdict.compute));
    add(use.draft_ms, to_ms(record.stats.draft_compute));
    add(use.draft_steps, static_cast<double>(record.stats.draft_steps));
    add(use.bytes, answer->figures.wire_up + answer->figures.wire_down);
  }
  return use;
}

namespace {

// Nothing if no answer has one.
std::optional<CellEnergy> energy_of(std::span<const EdgeAnswer* const> answers) {
  CellEnergy energy;
  std::vector<AnswerFigures> figures;
  for (const EdgeAnswer* answer : answers) {
    if (!answer->energy) continue;
    figures.push_back(answer->figures);
    energy.mean.device += answer->energy->device;
    energy.mean.joules += answer->energy->joules;
    if (!answer->energy->server) continue;
    if (!energy.mean.server) energy.mean.server.emplace();
    *energy.mean.server += *answer->energy->server;
  }
  const AnswerFigures sum = sum_of(figures);
  if (sum.all_tokens <= 0) return std::nullopt;
  const double share = 1 / static_cast<double>(figures.size());
  energy.mean.device = energy.mean.device * share;
  if (energy.mean.server) energy.mean.server = *energy.mean.server * share;
  energy.mean.joules *= share;
  energy.tokens_per_answer = sum.all_tokens * share;
  energy.joules_per_token = estimate(figures, &AnswerFigures::joules_per_token);
  energy.device_joules_per_token = estimate(figures, &AnswerFigures::device_joules_per_token);
  return energy;
}

// Figures of one request, gathered over a cell.
struct Samples {
  std::vector<double> ttft, tpot, inter_chunk, e2el, rtt;

  void add(const AnswerRecord& record) {
    if (record.stats.ttft_ms) ttft.push_back(*record.stats.ttft_ms);
    if (record.stats.tpot_ms) tpot.push_back(*record.stats.tpot_ms);
    if (record.stats.ttft_ms && record.stats.decode_ms)
      e2el.push_back(*record.stats.ttft_ms + *record.stats.decode_ms);
    if (record.stats.rtt_ms) rtt.push_back(*record.stats.rtt_ms);
    for (std::size_t i = 1; i < record.stats.chunk_at.size(); ++i) {
      inter_chunk.push_back(to_ms(record.stats.chunk_at[i] - record.stats.chunk_at[i - 1]));
    }
  }
};

void count(const UnverifiedRecord& given, ByDeadline& counts) {
  if (given.outcome == UnverifiedOutcome::kInTime) ++counts.verified;
  if (!given.whole) return;
  if (!given.outcome) ++counts.cut;
  if (given.outcome == UnverifiedOutcome::kConfirmed) ++counts.confirmed;
  if (given.outcome == UnverifiedOutcome::kCorrected) ++counts.corrected;
}

void count(const FinishedAnswer& answer, const ServiceLimits& limits, CellReport& cell,
           std::size_t& kept) {
  ++cell.requests;
  if (answer.failed()) {
    ++cell.failures;
    if (limits.e2el_ms) ++cell.deadline_missed;
    return;
  }
  if (!answer.same_text) ++cell.mismatches;
  const AnswerRecord& record = answer.answer.record;
  const bool in_time = ServiceLimits{.e2el_ms = limits.e2el_ms}.kept_by(record);
  if (!in_time) ++cell.deadline_missed;
  if (limits.kept_by(record)) ++kept;
  if (record.unverified && cell.by_deadline) count(*record.unverified, *cell.by_deadline);
}

std::vector<double> accepted_by_position(const std::vector<const EdgeAnswer*>& answers) {
  Counts accepted, drafted;
  for (const EdgeAnswer* answer : answers) {
    add_counts(accepted, answer->record.stats.accepted_per_position);
    add_counts(drafted, answer->record.stats.drafted_per_position);
  }
  std::vector<double> shares;
  for (std::size_t i = 0; i < drafted.size(); ++i) {
    const double stood = i < accepted.size() ? static_cast<double>(accepted[i]) : 0;
    shares.push_back(drafted[i] > 0 ? stood / static_cast<double>(drafted[i]) : 0);
  }
  return shares;
}

std::optional<Estimate> tokens_per_s(const GridCell& cell) {
  std::optional<Estimate> tpot = tpot_of(cell.answers);
  if (!tpot || tpot->value <= 0) return std::nullopt;
  Estimate speed{1e3 / tpot->value, std::nullopt};
  if (tpot->interval && tpot->interval->low > 0) {
    speed.interval = Interval{1e3 / tpot->interval->high, 1e3 / tpot->interval->low};
  }
  return speed;
}

}  // namespace

std::string plain_name(std::span<const GridVariant> variants) {
  const auto plain = std::ranges::find_if(variants, [](const GridVariant& variant) {
    return variant.strategy == Strategy::kAr && !has_own_text(variant);
  });
  return plain == variants.end() ? "" : plain->name;
}

double round_trip_ms(const CellReport& cell) {
  const double asked = to_ms(cell.setting->link.up.delay + cell.setting->link.down.delay);
  return asked > 0 ? asked : cell.rtt_p50_ms.value_or(0);
}

std::string device_name(const CellReport& cell) {
  const GridSetting& setting = *cell.setting;
  std::string name = device_of(setting.pace);
  if (setting.synthetic) name += ", " + setting.synthetic->name;
  if (setting.sampling.temperature > 0) {
    name += fmt::format(", T={:.3g}", setting.sampling.temperature);
  }
  return name;
}

bool ServiceLimits::kept_by(const AnswerRecord& record) const {
  const auto within = [](std::optional<double> limit, std::optional<double> value) {
    return !limit || (value && *value <= *limit);
  };
  std::optional<double> e2el;
  if (record.stats.ttft_ms && record.stats.decode_ms)
    e2el = *record.stats.ttft_ms + *record.stats.decode_ms;
  return within(e2el_ms, e2el) && within(ttft_ms, record.stats.ttft_ms) &&
         within(tpot_ms, record.stats.tpot_ms);
}

PairedSpeedup paired_speedup(const std::vector<RequestSample>& base,
                             const std::vector<RequestSample>& samples) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, const RequestSample*> by_request;
  for (const RequestSample& sample : base) by_request[{sample.prompt, sample.repetition}] = &sample;
  const auto figures = [](const RequestSample& sample) {
    AnswerFigures out;
    out.decode_ms = sample.decode_ms;
    out.tokens = sample.tokens;
    return out;
  };
  std::vector<AnswerFigures> slow, fast;
  for (const RequestSample& sample : samples) {
    const auto pair = by_request.find({sample.prompt, sample.repetition});
    if (pair == by_request.end()) continue;
    slow.push_back(figures(*pair->second));
    fast.push_back(figures(sample));
  }
  return {slow.size(), speedup(slow, fast)};
}

namespace {

// Figures of the requests themselves.
CellReport gather(const GridPlan& plan, const GridResult& result, const ServiceLimits& limits,
                  std::size_t setting, std::size_t variant) {
  CellReport cell;
  cell.setting = &plan.settings[setting];
  cell.variant = &plan.variants[variant];
  cell.link_kind = result.link_kinds[setting];
  Samples samples;
  if (plan.unverified_by_ms && drafts_on_edge(*cell.variant)) cell.by_deadline.emplace();
  std::vector<const EdgeAnswer*> answers;
  double agreements = 0;
  std::size_t kept = 0;
  for (const FinishedAnswer& answer : result.finished) {
    if (answer.job.setting != setting || answer.job.variant != variant) continue;
    count(answer, limits, cell, kept);
    if (answer.failed()) continue;
    samples.add(answer.answer.record);
    agreements += answer.agreement;
    answers.push_back(&answer.answer);
    const AnswerFigures& figures = answer.answer.figures;
    cell.samples.push_back(
        {answer.job.prompt, answer.job.repetition, figures.decode_ms, figures.tokens});
  }
  if (limits.any() && cell.requests > 0) {
    cell.goodput = static_cast<double>(kept) / static_cast<double>(cell.requests);
  }
  cell.ttft_ms = spread_of(samples.ttft);
  cell.tpot_ms = spread_of(samples.tpot);
  cell.inter_chunk_ms = spread_of(samples.inter_chunk);
  cell.e2el_ms = spread_of(samples.e2el);
  cell.e2el_samples = std::move(samples.e2el);
  std::ranges::sort(cell.e2el_samples);
  if (!samples.rtt.empty()) cell.rtt_p50_ms = quantile(samples.rtt, 0.5);
  if (has_own_text(*cell.variant) && !answers.empty()) {
    cell.agreement = agreements / static_cast<double>(answers.size());
  }
  cell.use = use_of(answers);
  cell.energy = energy_of(answers);
  cell.accepted_by_position = accepted_by_position(answers);
  return cell;
}

}  // namespace

std::vector<CellReport> cell_reports(const GridPlan& plan, const GridResult& result,
                                     const ServiceLimits& limits) {
  const std::string plain = plain_name(plan.variants);
  std::vector<CellReport> cells;
  for (std::size_t setting = 0; setting < plan.settings.size(); ++setting) {
    for (std::size_t variant = 0; variant < plan.variants.size(); ++variant) {
      CellReport cell = gather(plan, result, limits, setting, variant);
      const GridCell& grid = result.cells[setting * plan.variants.size() + variant];
      cell.gamma = grid.gamma > 0 ? grid.gamma : plan.gamma;
      cell.link = grid.link;
      cell.speculation_on = grid.speculation_on();
      cell.sum = sum_of(grid.answers);
      cell.acceptance = estimate(grid.answers, &AnswerFigures::acceptance);
      cell.exit_hit_rate = estimate(grid.answers, &AnswerFigures::exit_hit_rate);
      cell.tokens_per_s = tokens_per_s(grid);
      cell.over_ar = speedup_at(result, grid.setting, grid.variant, plain);
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

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

namespace {

Json to_json(const CellEnergy& energy) {
  return {{"joules_per_token", json_or_null(energy.joules_per_token)},
          {"device_joules_per_token", json_or_null(energy.device_joules_per_token)},
          {"joules_per_answer", energy.mean.joules},
          {"device_parts", write_json(energy.mean.device)},
          {"server_parts", write_json(energy.mean.server)}};
}

Json to_json(const ByDeadline& counts) {
  return {{"whole", counts.whole()},
          {"verified", counts.verified},
          {"unverified", counts.unverified()},
          {"confirmed", counts.confirmed},
          {"corrected", counts.corrected}};
}

}  // namespace

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
          {"by_deadline", cell.by_deadline ? to_json(*cell.by_deadline) : Json()},
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
          {"energy", cell.energy ? to_json(*cell.energy) : Json()},
          {"samples", write_json(cell.samples)}};
}

namespace {

bool clearly_faster(const CellReport& fast, const CellReport& slow) {
  const PairedSpeedup ratio = paired_speedup(slow.samples, fast.samples);
  return ratio.speedup && ratio.speedup->interval && ratio.speedup->interval->low > 1;
}

bool is_plain(const CellReport* cell) {
  return cell->variant->strategy == Strategy::kAr && !has_own_text(*cell->variant);
}

// Cells of one setting follow each other.
std::vector<std::vector<const CellReport*>> cells_by_setting(std::span<const CellReport> cells) {
  std::vector<std::vector<const CellReport*>> settings;
  for (const CellReport& cell : cells) {
    if (settings.empty() || settings.back().front()->setting != cell.setting) {
      settings.emplace_back();
    }
    settings.back().push_back(&cell);
  }
  return settings;
}

}  // namespace

std::vector<const CellReport*> winners(std::span<const CellReport* const> setting) {
  std::vector<const CellReport*> known;
  for (const CellReport* cell : setting) {
    if (cell->competes() && cell->tokens_per_s) known.push_back(cell);
  }
  std::ranges::stable_sort(known, std::ranges::greater{},
                           [](const CellReport* cell) { return cell->tokens_per_s->value; });
  std::erase_if(known, [&, best = known.empty() ? nullptr : known.front()](const CellReport* cell) {
    return cell != best && clearly_faster(*best, *cell);
  });
  return known;
}

std::string winners_line(std::span<const CellReport> cells) {
  std::map<std::string, std::size_t> alone, shared;
  std::size_t settings = 0, undecided = 0, plain = 0;
  for (const std::vector<const CellReport*>& setting : cells_by_setting(cells)) {
    const std::vector<const CellReport*> best = winners(setting);
    if (best.empty()) continue;
    ++settings;
    plain += std::ranges::any_of(best, is_plain) ? 1 : 0;
    if (best.size() == 1) {
      ++alone[best.front()->variant->name];
      continue;
    }
    ++undecided;
    for (const CellReport* cell : best) ++shared[cell->variant->name];
  }
  if (settings == 0) return "No strategy answered.";
  if (undecided > 0 && plain == settings) {
    return fmt::format(
        "No strategy is shown to be faster than plain decoding: the intervals cannot tell them "
        "apart "
        "at {} of {} settings.",
        undecided, settings);
  }
  std::string text;
  for (const auto& [name, count] : alone) {
    text += fmt::format("{}{} at {} of {} settings", text.empty() ? "Fastest: " : ", ", name, count,
                        settings);
  }
  if (undecided == 0) return text + ".";
  std::string names;
  for (const auto& [name, count] : shared) {
    names += fmt::format("{}{} at {}", names.empty() ? "" : ", ", name, count);
  }
  return text + fmt::format("{}Too close to call at {} of {} settings, among the fastest: {}.",
                            text.empty() ? "" : ". ", undecided, settings, names);
}

}  // namespace outrider
