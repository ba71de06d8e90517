// What a scheduler counts: of the device's work, and of its sessions as they end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/protocol/messages.h"
#include "common/verify/stream_event.h"

namespace outrider {

struct ReportCounts;
class VerifySession;

// What a pruner has done (branch_pruner.h).
struct PruneCounts {
  std::uint64_t passes = 0;       // that had branches
  std::uint64_t rows = 0;         // of their nodes
  std::uint64_t rows_ended = 0;   // of those
  std::uint64_t rows_scored = 0;  // that the predictor's head was computed for

  PruneCounts& operator+=(const PruneCounts& other) {
    passes += other.passes;
    rows += other.rows;
    rows_ended += other.rows_ended;
    rows_scored += other.rows_scored;
    return *this;
  }
};

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
  PruneCounts pruned;
};

// Of the drafted tokens that a session's passes took.
struct DraftCounts {
  std::uint64_t rounds = 0;  // passes with nodes
  std::uint64_t tokens = 0;
  std::uint64_t accepted = 0;
  std::vector<std::uint64_t> accepted_at;  // [depth - 1]: passes that accepted so deep
};

// A session that is over, for the books.
struct SessionRecord {
  std::string session_id;
  std::string tenant;      // empty: no one was asked
  std::string request_id;  // empty: none came
  FinishReason reason = FinishReason::kError;
  Usage usage;
  DraftCounts draft;
  Duration lasted{0};                 // from Open to the end
  Duration to_first_token{0};         // from Open to the first verdict; 0: there was none
  Duration prefill{0};                // computing until then
  Duration queued{0};                 // in all, while the device served others
  std::optional<double> joules = {};  // of its passes; nothing: the device does not tell
  std::shared_ptr<const StreamTraffic> traffic = {};  // null: nobody counted it
};

// Keeps what a record needs while the session lives.
class SessionBook final {
 public:
  explicit SessionBook(TimePoint opened) : opened_(opened) {}

  void add_queued(Duration time) { queued_ += time; }
  // A pass over so many nodes ended, of which `accepted` became text. computed: so far, in all.
  void add_pass(std::size_t nodes, std::size_t accepted, Duration computed, TimePoint now);
  SessionRecord record(const Usage& usage, TimePoint now) const;
  // Between the last two verdicts; nothing if there were not two.
  std::optional<Duration> last_gap() const { return last_gap_; }

 private:
  TimePoint opened_;
  std::optional<TimePoint> last_verdict_;
  std::optional<Duration> last_gap_;
  DraftCounts draft_;
  Duration to_first_token_{0};
  Duration prefill_{0};
  Duration queued_{0};
};

// Adds a session that ends: its Usage, and how it finished; one that broke off is an error.
void count_session(SchedulerStats& stats, const VerifySession& session);

void count_reports(SchedulerStats& stats, const ReportCounts& counts);

}  // namespace outrider
