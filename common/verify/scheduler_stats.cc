// SPDX-License-Identifier: Apache-2.0
#include "common/verify/scheduler_stats.h"

#include <algorithm>

#include "common/verify/reports/exit_reporter.h"
#include "common/verify/session.h"

namespace outrider {
namespace {

std::uint64_t& finished_by(SchedulerStats& stats, FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return stats.finished_stop;
    case FinishReason::kLength:
      return stats.finished_length;
    case FinishReason::kCancelled:
      return stats.finished_cancelled;
    case FinishReason::kError:
      break;
  }
  return stats.finished_error;
}

}  // namespace

void SessionBook::add_pass(std::size_t nodes, std::size_t accepted, Duration computed,
                           TimePoint now) {
  if (last_verdict_) {
    last_gap_ = now - *last_verdict_;
  } else {
    to_first_token_ = now - opened_;
    prefill_ = computed;
  }
  last_verdict_ = now;
  if (nodes == 0) return;
  ++draft_.rounds;
  draft_.tokens += nodes;
  const std::size_t deep = std::min(accepted, nodes);
  draft_.accepted += deep;
  if (draft_.accepted_at.size() < deep) draft_.accepted_at.resize(deep);
  for (std::size_t i = 0; i < deep; ++i) ++draft_.accepted_at[i];
}

SessionRecord SessionBook::record(const Usage& usage, TimePoint now) const {
  return {.session_id = {},
          .tenant = {},
          .request_id = {},
          .reason = usage.reason,
          .usage = usage,
          .draft = draft_,
          .lasted = now - opened_,
          .to_first_token = to_first_token_,
          .prefill = prefill_,
          .queued = queued_};
}

void count_session(SchedulerStats& stats, const VerifySession& session) {
  const Usage& usage = session.usage();
  ++finished_by(stats, session.finished() ? usage.reason : FinishReason::kError);
  stats.prompt_tokens += usage.prompt_tokens;
  stats.cached_tokens += usage.cached_tokens;
  stats.completion_tokens += usage.completion_tokens;
  stats.dead_on_arrival += usage.dead_on_arrival;
}

void count_reports(SchedulerStats& stats, const ReportCounts& counts) {
  stats.exits_computed += counts.computed;
  stats.reports_sent += counts.sent;
  stats.reports_deduplicated += counts.deduplicated;
  stats.reports_dropped += counts.dropped;
}

}  // namespace outrider
