// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/law.h"

#include <fmt/core.h>

#include <algorithm>

#include "bench/harness/statistics.h"

namespace outrider {
namespace {

double share(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

// How much of the rounds was still to be drafted when their verdicts came, and how often the
// verifier had the round already or went on without. False if the edge did not count it.
bool read_predraft(const AnswerFigures& sum, LawTerms& terms) {
  const std::optional<double> left = sum.left_rate();
  if (!left || sum.passes <= 0) return false;
  terms.left_rate = *left;
  terms.gamma = static_cast<double>(sum.predraft->wanted_tokens) / sum.passes;
  terms.synced_rate = share(static_cast<double>(sum.predraft->synced), sum.passes);
  terms.alone_rate = share(sum.passes - sum.rounds, sum.passes);
  return true;
}

const LawRow* find_row(const std::vector<LawRow>& rows, const std::string& setting,
                       Strategy strategy) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const LawRow& row) {
    return row.setting == setting && row.strategy == strategy;
  });
  return found == rows.end() ? nullptr : &*found;
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
    round += waited * 2 * terms.one_way_ms + std::min(terms.left_rate, waited) * drafting;
  }
  return round / terms.tau;
}

std::optional<LawRow> law_of(const GridCell& cell, const PaperPace& pace) {
  const AnswerFigures sum = sum_of(cell.answers);
  if (!sum.tpot_ms() || !sum.tau() || cell.mismatches > 0) return std::nullopt;
  LawRow row;
  row.setting = cell.setting;
  row.variant = cell.variant;
  row.strategy = cell.strategy;
  row.measured_ms = *sum.tpot_ms();
  LawTerms& terms = row.terms;
  terms.pass_ms = *sum.pass_ms();
  terms.one_way_ms = pace.one_way_ms;
  terms.tau = *sum.tau();
  terms.step_ms = step_curve(pace).ms(1);
  if (terms.step_ms <= 0 && sum.draft_steps > 0) terms.step_ms = sum.draft_ms / sum.draft_steps;
  if (cell.strategy != Strategy::kAr && !read_predraft(sum, terms)) return std::nullopt;
  row.law_ms = law_ms(cell.strategy, terms);
  return row;
}

std::optional<FsdSaving> fsd_saving(const std::vector<LawRow>& rows, const std::string& setting) {
  const LawRow* sd = find_row(rows, setting, Strategy::kSd);
  const LawRow* fsd = find_row(rows, setting, Strategy::kFsd);
  if (sd == nullptr || fsd == nullptr || fsd->terms.left_rate >= sd->terms.left_rate) {
    return std::nullopt;
  }
  return FsdSaving{setting, sd->measured_ms - fsd->measured_ms,
                   (sd->terms.left_rate - fsd->terms.left_rate) * sd->terms.gamma *
                       sd->terms.step_ms / fsd->terms.tau};
}

Json to_json(const LawRow& row) {
  return {{"pace", row.setting},
          {"variant", row.variant},
          {"strategy", name_of(row.strategy)},
          {"measured_ms", row.measured_ms},
          {"law_ms", row.law_ms},
          {"residual", row.residual()},
          {"terms",
           {{"step_ms", row.terms.step_ms},
            {"pass_ms", row.terms.pass_ms},
            {"one_way_ms", row.terms.one_way_ms},
            {"gamma", row.terms.gamma},
            {"tau", row.terms.tau},
            {"left_rate", row.terms.left_rate},
            {"synced_rate", row.terms.synced_rate},
            {"alone_rate", row.terms.alone_rate}}}};
}

std::string law_table(const std::vector<LawRow>& rows) {
  std::string text =
      "pace                  strategy      measured       law  residual     T_q     T_p    T_c"
      "   tau     r     s     e\n";
  for (const LawRow& row : rows) {
    text += fmt::format(
        "{:21} {:12} {:9.2f} {:9.2f} {:8.1f}% {:7.1f} {:7.2f} {:6.1f} {:5.2f} {:5.2f} {:5.2f} "
        "{:5.2f}\n",
        row.setting, row.variant, row.measured_ms, row.law_ms, 100 * row.residual(),
        row.terms.pass_ms, row.terms.step_ms, row.terms.one_way_ms, row.terms.tau,
        row.terms.left_rate, row.terms.synced_rate, row.terms.alone_rate);
  }
  return text;
}

}  // namespace outrider
