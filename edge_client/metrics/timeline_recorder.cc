// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/timeline_recorder.h"

#include <utility>

#include "edge_client/metrics/predraft_stats.h"

namespace outrider {
namespace {

using Track = Timeline::Track;

}  // namespace

void TimelineRecorder::on_start(std::size_t /*prompt_tokens*/, TimePoint now) {
  keeper_.emplace(spent_).on_start(now);
}

void TimelineRecorder::on_opened(const Opened& opened, Duration /*took*/, bool /*reconnected*/) {
  exit_layers_ = opened.exits;
}

void TimelineRecorder::on_sent(const EdgeMessage::Body& body, TimePoint now) {
  if (const auto* grow = std::get_if<Grow>(&body)) {
    timeline_.mark(Track::kSent, "Grow of " + std::to_string(grow->nodes.size()) + " nodes", now);
  } else if (std::holds_alternative<Policy>(body)) {
    timeline_.mark(Track::kSent, "Policy", now);
  }
}

void TimelineRecorder::on_pass_started(const Started& started, std::optional<Duration> /*synced*/,
                                       TimePoint now) {
  timeline_.mark(Track::kHeard, "pass " + std::to_string(started.pass) + " started", now);
}

void TimelineRecorder::on_exit_report(const ExitReport& report, bool taken, TimePoint now) {
  if (!taken) return;
  timeline_.mark(Track::kHeard,
                 exit_name(exit_layers_, report.exit) + " of pass " + std::to_string(report.pass) +
                     ", confidence " + std::to_string(report.confidence) + "/255",
                 now);
}

void TimelineRecorder::on_draft_step(const DraftStepDone& step, TimePoint now) {
  const std::size_t rows = step.slots.size();
  timeline_.span(Track::kDraft, rows == 0 ? "catch up" : "draft " + std::to_string(rows) + " rows",
                 now - step.compute, step.compute);
}

// The pass ended half a round trip before its verdict was heard.
void TimelineRecorder::on_verdict(const VerdictRecord& record, TimePoint now) {
  const Verdict& verdict = record.verdict;
  draw_waits(keeper_->on_verdict(verdict.timings, record.round_trip, now), now);
  const std::string pass = "pass " + std::to_string(verdict.pass);
  const TimePoint end = now - record.round_trip / 2;
  timeline_.span(Track::kTarget, pass + ", " + std::to_string(verdict.rows) + " rows",
                 end - verdict.timings.computed, verdict.timings.computed);
  timeline_.mark(Track::kHeard,
                 "verdict of " + pass + ": " + std::to_string(verdict.tokens.size()) + " tokens",
                 now);
}

// The time since the verdict before, divided as --explain does, in the order of a round.
void TimelineRecorder::draw_waits(const TimeSpent& spent, TimePoint now) {
  const std::pair<const char*, Duration> parts[] = {
      {"the first verdict", spent.first},
      {"the draft", spent.drafting},
      {"other", spent.other},
      {"the link, up", spent.link / 2},
      {"other sessions", spent.queued},
      {"the target", spent.target},
      {"the link, down", spent.link - spent.link / 2},
  };
  TimePoint begin = now - spent.total();
  for (const auto& [what, length] : parts) {
    if (length > Duration{0}) timeline_.span(Track::kWaits, what, begin, length);
    begin += length;
  }
}

void TimelineRecorder::on_cache_lookup(const CacheLookup& found, std::size_t wanted,
                                       TimePoint now) {
  const std::string who =
      found.exit ? ", named by " + exit_name(exit_layers_, *found.exit) : ", the draft's own guess";
  const std::string length = std::to_string(found.drafted) + " tokens drafted ahead";
  switch (judge(found, wanted)) {
    case CacheHit::kWhole:
      return timeline_.mark(Track::kAnswer, "hit: " + length + who, now);
    case CacheHit::kPartial:
      return timeline_.mark(Track::kAnswer, "partial hit: " + length + who, now);
    case CacheHit::kLate:
      return timeline_.mark(Track::kAnswer, "late hit: its first draft step runs" + who, now);
    case CacheHit::kMiss:
      return timeline_.mark(Track::kAnswer, "miss", now);
  }
}

}  // namespace outrider
