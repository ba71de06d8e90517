// SPDX-License-Identifier: Apache-2.0
#include "bench/report/cell_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "bench/harness/summary.h"
#include "bench/paces/paces.h"
#include "bench/report/cell_use.h"

namespace outrider {
namespace {

// Figures of one request, gathered over a cell.
struct Samples {
  std::vector<double> ttft, tpot, inter_chunk, e2el, rtt;

  void add(const AnswerRecord& record) {
    if (record.ttft_ms) ttft.push_back(*record.ttft_ms);
    if (record.tpot_ms) tpot.push_back(*record.tpot_ms);
    if (record.ttft_ms && record.decode_ms) e2el.push_back(*record.ttft_ms + *record.decode_ms);
    if (record.rtt_ms) rtt.push_back(*record.rtt_ms);
    for (std::size_t i = 1; i < record.chunk_at.size(); ++i) {
      inter_chunk.push_back(to_ms(record.chunk_at[i] - record.chunk_at[i - 1]));
    }
  }
};

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
}

std::vector<double> accepted_by_position(const std::vector<const EdgeAnswer*>& answers) {
  Counts accepted, drafted;
  for (const EdgeAnswer* answer : answers) {
    add_counts(accepted, answer->record.accepted_per_position);
    add_counts(drafted, answer->record.drafted_per_position);
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
  if (record.ttft_ms && record.decode_ms) e2el = *record.ttft_ms + *record.decode_ms;
  return within(e2el_ms, e2el) && within(ttft_ms, record.ttft_ms) &&
         within(tpot_ms, record.tpot_ms);
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

// Of the requests themselves.
CellReport gather(const GridPlan& plan, const GridResult& result, const ServiceLimits& limits,
                  std::size_t setting, std::size_t variant) {
  CellReport cell;
  cell.setting = &plan.settings[setting];
  cell.variant = &plan.variants[variant];
  cell.link_kind = result.link_kinds[setting];
  Samples samples;
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

}  // namespace outrider
