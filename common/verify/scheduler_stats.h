// What a scheduler counts: of the device's work, and of its sessions as they end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/clock.h"

namespace outrider {

struct ReportCounts;
class VerifySession;

// Totals since the start, and what is there now.
struct SchedulerStats {
  std::uint64_t streams_open = 0;   // now
  std::uint64_t sessions_open = 0;  // now; at most max_concurrent_sessions
  std::uint64_t caches_kept = 0;    // now; at most kept_caches
  std::int64_t kv_bytes = 0;        // now, of all KV caches
  std::uint64_t sessions_opened = 0;
  std::uint64_t sessions_refused = 0;  // by RESOURCE_EXHAUSTED or UNAVAILABLE
  std::uint64_t finished_stop = 0;
  std::uint64_t finished_length = 0;
  std::uint64_t finished_cancelled = 0;
  std::uint64_t finished_error = 0;  // and streams that broke
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompts, found in a replaced session's KV
  std::uint64_t completion_tokens = 0;
  std::uint64_t passes = 0;
  std::uint64_t failed_in_a_row = 0;  // turns that ended INTERNAL since the last that ended well
  std::uint64_t rows = 0;             // computed, prefill included
  std::uint64_t dead_on_arrival = 0;  // nodes
  std::uint64_t exits_computed = 0;   // guesses of early exits
  std::uint64_t reports_sent = 0;
  std::uint64_t reports_deduplicated = 0;  // another exit had said it in that pass
  std::uint64_t reports_dropped = 0;       // the verdict came first
  Duration compute{0};
};

// Adds a session that ends: its Usage, and how it finished; one that broke off is an error.
void count_session(SchedulerStats& stats, const VerifySession& session);

void count_reports(SchedulerStats& stats, const ReportCounts& counts);

}  // namespace outrider
