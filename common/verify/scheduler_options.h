// What an operator may set about verifying.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/protocol/messages.h"
#include "common/protocol/pass_cost_book.h"
#include "common/verify/reports/report_queue.h"

namespace outrider {

class ExitHeads;
struct SessionRecord;

// What a guess's confidence is (exit_probe.h).
enum class ExitScore : std::uint8_t {
  kCalibrated,  // the probability that it names the whole outcome
  // The greatest probability that the exit gives a token in any row of its walk: the score of FSD,
  // algorithm 2, max(q_{1:delta+1}).
  kMaxSoftmax,
};

template <>
inline constexpr auto enum_names<ExitScore> = std::to_array<EnumName<ExitScore>>(
    {{ExitScore::kCalibrated, "calibrated"}, {ExitScore::kMaxSoftmax, "max-softmax"}});

struct SchedulerOptions {
  std::string tokenizer_hash;                 // hex, of the target's tokenizer; shown to every edge
  std::string server_version = {};            // shown to every edge
  std::function<Duration()> wall_clock = {};  // since 1970, shown to every edge; empty: not
  std::uint32_t max_concurrent_sessions = 8;  // the next Open is refused
  std::uint32_t kept_caches = 4;              // finished sessions whose KV waits for a successor
  std::uint32_t prefill_chunk = 256;  // prompt tokens between which other sessions get their turn
  Position max_positions = 0;         // prefix and answer at most; 0: the model's own limit
  std::uint32_t max_nodes = 64;       // living nodes of a stream; at least 64, which edges rely on
  std::uint32_t max_rows = 33;        // rows of one verifying pass
  std::uint32_t run_ahead = 512;      // tokens past the acknowledged position
  std::uint32_t max_message_bytes = 1 << 20;
  Duration idle_timeout = std::chrono::minutes(2);   // without progress an edge loses its session
  Duration open_timeout = std::chrono::seconds(10);  // from one piece of an Open to the next
  Duration pass_limit{0};           // told to edges as the longest pass; 0: there is none
  std::int64_t kv_cache_bytes = 0;  // of all KV caches; 0: no bound
  // Of a tenant's KV caches, asked on the scheduler's thread; 0: no bound. Empty: none has one.
  std::function<std::int64_t(const std::string& tenant)> tenant_kv_bytes = {};
  // Told the rows of each turn of a tenant, and asked when it may have its next: in the past, now.
  // On the scheduler's thread. Empty: no tenant waits for that.
  std::function<void(const std::string& tenant, std::size_t rows, TimePoint now)> on_rows = {};
  std::function<TimePoint(const std::string& tenant)> tenant_ready_at = {};
  Duration kept_for{0};  // how long a finished session's KV waits; 0: for ever
  Duration retry_after = std::chrono::seconds(2);  // told to whom max_concurrent_sessions refuses
  // Called with each session that is over, after its last message, on the engine's compute thread;
  // must return soon. Empty: no.
  std::function<void(const SessionRecord&)> on_session_end = {};
  // Called with the time between two verdicts of a session, as on_session_end.
  std::function<void(Duration)> on_verdict_gap = {};
  // The joules that the device has used so far, asked around each pass; nothing: it does not tell.
  std::function<std::optional<double>()> joules = {};
  PassCostBook pass_costs = {};  // what the model's passes took before
  ExitHeads* exits = nullptr;    // of the model; outlives the scheduler. Null: no early exits
  ReportQueue report_queue = ReportQueue::kPriority;
  ExitScore exit_score = ExitScore::kCalibrated;
  // Branches with less chance than this by an exit in the middle end there; 0: all go to the end.
  double prune_below = 0;
  ExitHeads* predictor = nullptr;  // gives that chance; null: `exits` do
  // Logits only of the rows that a verdict's walk comes to (LEVER, section 4.4), where the model
  // can: less work in a pass of many rows.
  bool logits_on_demand = false;
};

}  // namespace outrider
