// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/figure_recorder.h"

#include <algorithm>
#include <bit>

namespace outrider {
namespace {

void count_rows(std::vector<std::uint64_t>& passes, std::uint32_t rows) {
  if (passes.size() < rows) passes.resize(rows);
  if (rows > 0) ++passes[rows - 1];
}

}  // namespace

void FigureRecorder::on_start(std::size_t prompt_tokens, TimePoint now) {
  stats_.prompt_tokens = prompt_tokens;
  started_ = now;
  keeper_.on_start(now);
}

void FigureRecorder::on_opened(const Opened& opened, Duration took, bool reconnected) {
  stats_.predraft.exit_layers = opened.exits;
  server_drafts_ = opened.server_drafts;
  if (reconnected) {
    ++stats_.reconnects;
  } else if (stats_.round_trips.empty()) {
    stats_.rtt_ms = to_ms(took);
  }
}

void FigureRecorder::on_sent(const EdgeMessage::Body& body, TimePoint /*now*/) {
  if (const auto* open = std::get_if<Open>(&body)) wants_exits_ = open->policy.wants_exits;
  if (const auto* policy = std::get_if<Policy>(&body)) wants_exits_ = policy->wants_exits;
}

void FigureRecorder::on_pass_started(const Started& /*started*/, std::optional<Duration> synced,
                                     TimePoint /*now*/) {
  pass_has_exits_ = wants_exits_ && !stats_.predraft.exit_layers.empty();
  if (synced) {
    ++stats_.predraft.synced;
    stats_.predraft.synced_late += *synced;
  }
}

void FigureRecorder::on_exit_report(const ExitReport& /*report*/, bool taken, TimePoint /*now*/) {
  ++(taken ? stats_.predraft.reports : stats_.predraft.ignored_reports);
}

void FigureRecorder::on_draft_step(const DraftStepDone& step, TimePoint /*now*/) {
  ++(step.abandoned ? stats_.predraft.abandoned_steps : stats_.draft_steps);
  stats_.draft_compute += step.compute;
}

void FigureRecorder::on_verdict(const VerdictRecord& record, TimePoint now) {
  record_pass(record);
  if (record.answer_tokens > stats_.completion_tokens) {
    stats_.chunk_at.push_back(now - started_.value_or(now));
    stats_.chunk_tokens.push_back(record.answer_tokens - stats_.completion_tokens);
  }
  stats_.completion_tokens = record.answer_tokens;
  record_times(now);
  keeper_.on_verdict(record.verdict.timings, record.round_trip, now);
  stats_.predraft.ahead_dead += record.sent_unused;
  stats_.predraft.evicted_nodes = record.evicted;
}

// Records the times of a verdict whose tokens are counted.
void FigureRecorder::record_times(TimePoint now) {
  if (!first_token_) first_token_ = now;
  const auto tokens = static_cast<double>(stats_.completion_tokens);
  stats_.decode_ms = to_ms(now - *first_token_);
  if (tokens >= 2) stats_.tpot_ms = *stats_.decode_ms / (tokens - 1);
  stats_.tokens_per_pass = tokens / static_cast<double>(stats_.passes);
  if (!started_) return;
  stats_.ttft_ms = to_ms(*first_token_ - *started_);
  if (now > *started_) stats_.tokens_per_s = tokens / to_seconds(now - *started_);
}

void FigureRecorder::record_round_trip(Duration took) {
  stats_.round_trips.push_back(took);
  sorted_round_trips_.insert(std::ranges::upper_bound(sorted_round_trips_, took), took);
  stats_.rtt_ms = to_ms(sorted_round_trips_[sorted_round_trips_.size() / 2]);
}

void FigureRecorder::record_pass(const VerdictRecord& record) {
  const Verdict& verdict = record.verdict;
  if (!first_token_) {
    stats_.first_verdict = {
        .tokens = verdict.tokens.size(), .rows = verdict.rows, .compute = verdict.timings.computed};
  } else {
    count_rows(stats_.passes_by_rows, verdict.rows);
    if (pass_has_exits_) count_rows(stats_.exit_passes_by_rows, verdict.rows);
  }
  ++stats_.passes;
  stats_.rows += verdict.rows;
  stats_.target_compute += verdict.timings.computed;
  stats_.target_queued += verdict.timings.queued;
  if (record.request_round_trip && *record.request_round_trip > Duration::zero()) {
    record_round_trip(*record.request_round_trip);
  }
  stats_.record_round(record.round);
  stats_.num_server_tokens += static_cast<std::uint64_t>(std::popcount(verdict.server_nodes));
  // Pass 0 reads the prompt: its rows are not all nodes'. Those of a server that drafts are not all
  // the edge's.
  if (verdict.pass > 0 && !server_drafts_ && verdict.rows > record.round.nodes + 1) {
    stats_.predraft.surplus_rows += verdict.rows - record.round.nodes - 1;
  }
}

void FigureRecorder::on_cache_lookup(const CacheLookup& found, std::size_t wanted,
                                     TimePoint /*now*/) {
  stats_.predraft.count(found, wanted);
}

void FigureRecorder::on_usage(const Usage& usage) {
  stats_.cached_tokens = usage.cached_tokens;
  stats_.rows_pruned = usage.rows_pruned;
}

void FigureRecorder::on_plan_changed(const PlanChange& change) {
  stats_.plan_changes.push_back(change);
}

}  // namespace outrider
