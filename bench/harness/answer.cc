// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/answer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "edge_client/speculation/strategy.h"

namespace outrider {
namespace {

std::optional<double> ratio(double numerator, double denominator) {
  if (denominator <= 0) return std::nullopt;
  return numerator / denominator;
}

constexpr std::array kSummed = {
    &AnswerFigures::decode_ms,   &AnswerFigures::tokens,       &AnswerFigures::all_tokens,
    &AnswerFigures::passes,      &AnswerFigures::rows,         &AnswerFigures::compute_ms,
    &AnswerFigures::rounds,      &AnswerFigures::drafted,      &AnswerFigures::accepted,
    &AnswerFigures::draft_steps, &AnswerFigures::draft_ms,     &AnswerFigures::draft_overruns,
    &AnswerFigures::payload_up,  &AnswerFigures::payload_down, &AnswerFigures::wire_up,
    &AnswerFigures::wire_down,   &AnswerFigures::joules,       &AnswerFigures::device_joules};

Status not_known(const char* figure) {
  return data_loss(std::string("the last line of outrider-edge does not know the figure \"") +
                   figure + "\"");
}

Result<AnswerFigures> figures_of(const AnswerRecord& record) {
  if (!record.stats.decode_ms) return not_known("decode_ms");
  if (!record.traffic && record.mode != Mode::kOffline) return not_known("bytes");
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  const FirstVerdict& first = record.stats.first_verdict;
  AnswerFigures figures;
  figures.decode_ms = *record.stats.decode_ms;
  figures.all_tokens = number(record.stats.completion_tokens);
  figures.tokens = figures.all_tokens - number(first.tokens);
  figures.passes = std::max(number(record.stats.passes) - 1, 0.0);
  figures.rows = number(record.stats.rows) - number(first.rows);
  figures.compute_ms = to_ms(record.stats.target_compute - first.compute);
  // The prefill's pass may have taken nodes too: its rows beyond the prompt's. What was cached is
  // not known of a stream that ended without its Usage.
  const double prompt_rows =
      number(record.stats.prompt_tokens) - number(record.stats.cached_tokens.value_or(0));
  const double first_nodes = std::max(number(first.rows) - prompt_rows, 0.0);
  const double first_accepted = first_nodes > 0 ? number(first.tokens) - 1 : 0;
  figures.rounds = number(record.stats.num_drafts) - (first_nodes > 0 ? 1 : 0);
  figures.drafted = number(record.stats.num_draft_tokens) - first_nodes;
  figures.accepted = number(record.stats.num_accepted_tokens) - first_accepted;
  figures.passes_by_rows = record.stats.passes_by_rows;
  figures.exit_passes_by_rows = record.stats.exit_passes_by_rows;
  figures.draft_steps = number(record.stats.draft_steps);
  figures.draft_overruns = number(record.draft_overruns);
  figures.draft_ms = to_ms(record.stats.draft_compute);
  if (record.traffic) {
    figures.payload_up = number(record.traffic->bytes.payload_up);
    figures.payload_down = number(record.traffic->bytes.payload_down);
  }
  figures.predraft = record.stats.predraft;
  figures.drafted_per_branch = record.stats.drafted_per_branch;
  figures.accepted_per_branch = record.stats.accepted_per_branch;
  return figures;
}

}  // namespace

AnswerFigures& AnswerFigures::operator+=(const AnswerFigures& other) {
  for (const auto field : kSummed) this->*field += other.*field;
  if (other.predraft) {
    if (!predraft) predraft.emplace();
    *predraft += *other.predraft;
  }
  add_counts(passes_by_rows, other.passes_by_rows);
  add_counts(exit_passes_by_rows, other.exit_passes_by_rows);
  add_counts(drafted_per_branch, other.drafted_per_branch);
  add_counts(accepted_per_branch, other.accepted_per_branch);
  return *this;
}

std::optional<double> AnswerFigures::tpot_ms() const {
  return ratio(decode_ms, tokens);
}

std::optional<double> AnswerFigures::tau() const {
  return ratio(tokens, passes);
}

std::optional<double> AnswerFigures::rows_per_pass() const {
  return ratio(rows, passes);
}

std::optional<double> AnswerFigures::pass_ms() const {
  return ratio(compute_ms, passes);
}

std::optional<double> AnswerFigures::acceptance() const {
  return ratio(accepted, drafted);
}

std::optional<double> AnswerFigures::passes_per_token() const {
  return ratio(passes, tokens);
}

std::optional<double> AnswerFigures::wire_up_per_token() const {
  return ratio(wire_up, all_tokens);
}

std::optional<double> AnswerFigures::joules_per_token() const {
  return joules > 0 ? ratio(joules, all_tokens) : std::nullopt;
}

std::optional<double> AnswerFigures::device_joules_per_token() const {
  return device_joules > 0 ? ratio(device_joules, all_tokens) : std::nullopt;
}

void add_energy(const AnswerEnergy& energy, EdgeAnswer& answer) {
  answer.energy = energy;
  answer.figures.joules = energy.joules;
  answer.figures.device_joules = energy.device.sum();
}

std::optional<double> AnswerFigures::miss_rate() const {
  if (!predraft) return std::nullopt;
  const auto verdicts = static_cast<double>(predraft->verdicts);
  return ratio(verdicts - static_cast<double>(predraft->hits), verdicts);
}

std::optional<double> AnswerFigures::exit_hit_rate() const {
  const std::optional<double> misses = miss_rate();
  return misses ? std::optional(1 - *misses) : std::nullopt;
}

std::optional<double> AnswerFigures::partial_rate() const {
  if (!predraft) return std::nullopt;
  return ratio(static_cast<double>(predraft->partial_hits + predraft->late_hits),
               static_cast<double>(predraft->verdicts));
}

std::optional<double> AnswerFigures::mean_exit() const {
  if (!predraft || predraft->hits_by_exit.size() > predraft->exit_layers.size()) {
    return std::nullopt;
  }
  double hits = 0, layers = 0;
  for (std::size_t exit = 0; exit < predraft->hits_by_exit.size(); ++exit) {
    const auto count = static_cast<double>(predraft->hits_by_exit[exit]);
    hits += count;
    layers += count * predraft->exit_layers[exit];
  }
  return ratio(layers, hits);
}

std::optional<double> AnswerFigures::left_rate() const {
  if (!predraft) return std::nullopt;
  const double missing =
      static_cast<double>(predraft->missing_tokens) - static_cast<double>(predraft->late_hits) / 2;
  return ratio(missing, static_cast<double>(predraft->wanted_tokens));
}

double speculation_share(const AnswerRecord& record) {
  if (record.strategy == name_of(Strategy::kAr) || record.stats.completion_tokens == 0) return 0;
  std::uint64_t since = 0, on = 0;
  bool speculates = true;
  for (const PlanChange& change : record.stats.plan_changes) {
    const std::uint64_t token = std::min(change.token, record.stats.completion_tokens);
    if (speculates && token > since) on += token - since;
    since = std::max(since, token);
    speculates = change.speculates;
  }
  if (speculates) on += record.stats.completion_tokens - since;
  return static_cast<double>(on) / static_cast<double>(record.stats.completion_tokens);
}

Result<EdgeAnswer> edge_answer_of(AnswerRecord record) {
  OUTRIDER_ASSIGN_OR_RETURN(AnswerFigures figures, figures_of(record));
  return EdgeAnswer{.record = std::move(record), .figures = std::move(figures)};
}

Result<EdgeAnswer> read_edge_answer(std::string_view line) {
  OUTRIDER_ASSIGN_OR_RETURN(AnswerRecord record,
                            read_answer_record(line, "the last line of outrider-edge"));
  return edge_answer_of(std::move(record));
}

std::optional<Estimate> estimate(std::span<const AnswerFigures> answers,
                                 std::optional<double> (AnswerFigures::*figure)() const) {
  return bootstrap(answers.size(), [&](std::span<const std::size_t> indices) {
    return (sum_at(answers, indices).*figure)();
  });
}

std::optional<Estimate> improvement(std::span<const AnswerFigures> base,
                                    std::span<const AnswerFigures> answers,
                                    std::optional<double> (AnswerFigures::*figure)() const) {
  OUTRIDER_CHECK(base.size() == answers.size());
  return bootstrap(answers.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     const std::optional<double> much = (sum_at(base, indices).*figure)();
                     const std::optional<double> little = (sum_at(answers, indices).*figure)();
                     if (!much || !little || *little <= 0) return std::nullopt;
                     return *much / *little;
                   });
}

std::optional<Estimate> speedup(std::span<const AnswerFigures> base,
                                std::span<const AnswerFigures> answers) {
  return improvement(base, answers, &AnswerFigures::tpot_ms);
}

AnswerFigures sum_at(std::span<const AnswerFigures> answers, std::span<const std::size_t> indices) {
  AnswerFigures sum;
  for (const std::size_t index : indices) sum += answers[index];
  return sum;
}

AnswerFigures sum_of(std::span<const AnswerFigures> answers) {
  AnswerFigures sum;
  for (const AnswerFigures& figures : answers) sum += figures;
  return sum;
}

}  // namespace outrider
