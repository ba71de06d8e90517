// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/law.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace outrider {

double tokens_per_round(double acceptance, double gamma) {
  if (acceptance >= 1) return gamma + 1;
  return (1 - std::pow(acceptance, gamma + 1)) / (1 - acceptance);
}

double acceptance_of_tau(double tau, double gamma) {
  if (tau >= gamma + 1) return 1;
  double low = 0, high = 1;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (tokens_per_round(middle, gamma) < tau ? low : high) = middle;
  }
  return (low + high) / 2;
}

namespace {

double share(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

// The share of the rounds left to be drafted at their verdicts, and how often the verifier already
// had the round or continued without it. False if the edge did not count it.
bool read_predraft(const AnswerFigures& sum, LawTerms& terms) {
  const std::optional<double> left = sum.left_rate();
  if (!left || sum.passes <= 0) return false;
  terms.left_rate = *left;
  terms.gamma = static_cast<double>(sum.predraft->wanted_tokens) / sum.passes;
  const auto synced = static_cast<double>(sum.predraft->synced);
  terms.synced_rate = share(synced, sum.passes);
  if (synced > 0) terms.late_ms = to_ms(sum.predraft->synced_late) / synced;
  terms.alone_rate = share(sum.passes - sum.rounds, sum.passes);
  return true;
}

// The law's terms and the measured time of some answers of a cell.
std::optional<LawRow> row_of(const GridCell& cell, const AnswerFigures& sum, const LawPace& at) {
  if (!sum.tpot_ms() || !sum.tau() || cell.mismatches > 0) return std::nullopt;
  LawRow row;
  row.setting = cell.setting;
  row.variant = cell.variant;
  row.strategy = cell.strategy;
  row.measured_ms = *sum.tpot_ms();
  LawTerms& terms = row.terms;
  terms.pass_ms =
      asked_pass_ms(sum, pass_curve(at.pace), at.exit_cost).value_or(sum.pass_ms().value_or(0));
  terms.one_way_ms = at.pace.one_way_ms;
  terms.tau = *sum.tau();
  terms.step_ms = step_curve(at.pace).ms(1);
  if (terms.step_ms <= 0 && sum.draft_steps > 0) terms.step_ms = sum.draft_ms / sum.draft_steps;
  if (cell.strategy != Strategy::kAr && !read_predraft(sum, terms)) return std::nullopt;
  row.law_ms = law_ms(cell.strategy, terms);
  return row;
}

std::optional<FsdSaving> saving_of(const std::optional<LawRow>& sd,
                                   const std::optional<LawRow>& fsd) {
  if (!sd || !fsd || fsd->terms.left_rate >= sd->terms.left_rate) return std::nullopt;
  return FsdSaving{.measured_ms = sd->measured_ms - fsd->measured_ms,
                   .law_ms = (sd->terms.left_rate - fsd->terms.left_rate) * sd->terms.gamma *
                             sd->terms.step_ms / fsd->terms.tau,
                   .share = {}};
}

}  // namespace

double LawTerms::waited_rate() const {
  return std::clamp(1 - synced_rate - alone_rate, 0.0, 1.0);
}

double law_ms(Strategy strategy, const LawTerms& terms) {
  if (strategy == Strategy::kAr) return terms.pass_ms;
  const double drafting = terms.gamma * terms.step_ms;
  double round = terms.pass_ms;
  if (strategy == Strategy::kSd || strategy == Strategy::kFsd) {
    round += 2 * terms.one_way_ms + terms.left_rate * drafting;
  }
  if (strategy == Strategy::kMirror) {
    const double waited = terms.waited_rate();
    round += waited * 2 * terms.one_way_ms + terms.synced_rate * terms.late_ms +
             std::min(terms.left_rate, waited) * drafting;
  }
  return round / terms.tau;
}

std::optional<double> asked_pass_ms(const AnswerFigures& figures, const PaceCurve& pass,
                                    double exit_cost) {
  if (pass.empty()) return std::nullopt;
  double ms = 0, passes = 0;
  for (std::size_t i = 0; i < figures.passes_by_rows.size(); ++i) {
    const auto all = static_cast<double>(figures.passes_by_rows[i]);
    const auto with_exits = static_cast<double>(
        i < figures.exit_passes_by_rows.size() ? figures.exit_passes_by_rows[i] : 0);
    passes += all;
    ms += pass.ms(static_cast<std::int64_t>(i) + 1) * (all + with_exits * (exit_cost - 1));
  }
  return passes > 0 ? std::optional(ms / passes) : std::nullopt;
}

std::optional<LawRow> law_of(const GridCell& cell, const LawPace& pace) {
  std::optional<LawRow> row = row_of(cell, sum_of(cell.answers), pace);
  if (!row) return std::nullopt;
  const auto residual = bootstrap(
      cell.answers.size(), [&](std::span<const std::size_t> indices) -> std::optional<double> {
        const auto drawn = row_of(cell, sum_at(cell.answers, indices), pace);
        if (!drawn) return std::nullopt;
        return (drawn->measured_ms - drawn->law_ms) / drawn->measured_ms;
      });
  if (!residual) return std::nullopt;
  row->residual = *residual;
  return row;
}

std::optional<FsdSaving> fsd_saving(const GridCell& sd, const GridCell& fsd, const LawPace& pace) {
  OUTRIDER_CHECK(sd.answers.size() == fsd.answers.size());
  const auto saving_at = [&](std::span<const std::size_t> indices) {
    return saving_of(row_of(sd, sum_at(sd.answers, indices), pace),
                     row_of(fsd, sum_at(fsd.answers, indices), pace));
  };
  std::optional<FsdSaving> saving =
      saving_of(row_of(sd, sum_of(sd.answers), pace), row_of(fsd, sum_of(fsd.answers), pace));
  if (!saving) return std::nullopt;
  const auto share = bootstrap(fsd.answers.size(),
                               [&](std::span<const std::size_t> indices) -> std::optional<double> {
                                 const auto drawn = saving_at(indices);
                                 if (!drawn || drawn->law_ms <= 0) return std::nullopt;
                                 return drawn->measured_ms / drawn->law_ms;
                               });
  if (!share) return std::nullopt;
  saving->share = *share;
  return saving;
}

Json to_json(const LawRow& row) {
  return {{"pace", row.setting},
          {"variant", row.variant},
          {"strategy", name_of(row.strategy)},
          {"measured_ms", row.measured_ms},
          {"law_ms", row.law_ms},
          {"residual", to_json(row.residual)},
          {"terms",
           {{"step_ms", row.terms.step_ms},
            {"pass_ms", row.terms.pass_ms},
            {"one_way_ms", row.terms.one_way_ms},
            {"gamma", row.terms.gamma},
            {"tau", row.terms.tau},
            {"left_rate", row.terms.left_rate},
            {"synced_rate", row.terms.synced_rate},
            {"late_ms", row.terms.late_ms},
            {"alone_rate", row.terms.alone_rate}}}};
}

namespace {

std::string percent(const Estimate& estimate) {
  const Interval around = estimate.interval.value_or(Interval{estimate.value, estimate.value});
  return fmt::format("{:.1f}% [{:.1f}, {:.1f}]", 100 * estimate.value, 100 * around.low,
                     100 * around.high);
}

}  // namespace

std::string law_table(const std::vector<LawRow>& rows) {
  std::string text =
      "pace                  strategy      measured       law    residual [95 %]     T_q     T_p   "
      " T_c"
      "   tau     r     s     e    T_l\n";
  for (const LawRow& row : rows) {
    text += fmt::format(
        "{:21} {:12} {:9.2f} {:9.2f} {:>19} {:7.1f} {:7.2f} {:6.1f} {:5.2f} {:5.2f} {:5.2f} "
        "{:5.2f} {:6.1f}\n",
        row.setting, row.variant, row.measured_ms, row.law_ms, percent(row.residual),
        row.terms.pass_ms, row.terms.step_ms, row.terms.one_way_ms, row.terms.tau,
        row.terms.left_rate, row.terms.synced_rate, row.terms.alone_rate, row.terms.late_ms);
  }
  return text;
}

}  // namespace outrider
