// The settings, inputs and reports of a verifier's owner, as plain values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/decoding/costs/pass_costs.h"
#include "common/decoding/drafting/lookup/draft_source.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/protocol/verifier.h"
#include "common/decoding/verify/server_drafts/draft_experience.h"
#include "common/engine/model/model.h"

namespace outrider {

class ExitHeads;
class Model;

// --- streams -------------------------------------------------------------------------------------

using StreamId = std::uint64_t;

// Which stream, of those that one verifier serves, an event belongs to.
struct StreamEvent {
  StreamId stream;
  VerifierEvent event;
};

// The payload of a stream's messages, both ways, as its carrier counts it.
class StreamTraffic final {
 public:
  void add_up(std::uint64_t bytes) { up_.fetch_add(bytes, std::memory_order_relaxed); }
  void add_down(std::uint64_t bytes) { down_.fetch_add(bytes, std::memory_order_relaxed); }
  void set_down(std::uint64_t bytes) { down_.store(bytes, std::memory_order_relaxed); }
  std::uint64_t up() const { return up_.load(std::memory_order_relaxed); }
  std::uint64_t down() const { return down_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> up_{0};  // from the edge
  std::atomic<std::uint64_t> down_{0};
};

// For whom a stream came.
struct StreamOwner {
  std::string tenant = {};  // whose session ids and keys these are; empty: no one was asked
  std::string group = {};   // with whom it shares what is kept; the tenant, or the peer's address
  std::string request_id = {};  // for the log; empty: none came
  // The stream that is due first gets the next place among the waiting ones of its group. Nothing:
  // due a minute after it came.
  std::optional<TimePoint> due = {};
  // It is told a load instead of how long others kept the device.
  bool coarse_times = false;
  std::shared_ptr<const StreamTraffic> traffic = {};  // null: nobody counts it
};

// --- what is counted -----------------------------------------------------------------------------

// Which branches of a pass end in its middle (branch_pruner.h).
enum class PruneRule : std::uint8_t {
  kBranches,  // by a branch's chance, from the exit's score and the draft's confidence
  kEdges,     // LEVER's own, for comparison: an edge by its score alone (eq. 7 and 11)
};

// The counts of a pruner (branch_pruner.h).
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

// The time of a pass, and one rider's part of it.
struct RiderTimes {
  Duration took{0};        // the whole pass
  Duration share{0};       // of that, by the rider's rows; those of all riders are `took`
  std::uint32_t rows = 0;  // of the pass, all riders' together
};

// Totals since the start, and what is there now.
struct SchedulerStats {
  std::uint64_t streams_open = 0;   // now
  std::uint64_t sessions_open = 0;  // now; at most max_concurrent_sessions of each service tier
  std::uint64_t texts_kept = 0;     // now; at most KvPoolOptions::kept
  std::int64_t kv_bytes = 0;        // now, of sessions and of what is kept, a draft model's too
  std::int64_t kv_bytes_bound = 0;  // that kv_bytes may reach; 0 before the first session
  std::uint64_t lookup_tokens = 0;  // now, of texts that sessions left (tenant_texts.h)
  std::uint64_t sessions_opened = 0;
  std::uint64_t sessions_refused = 0;  // by RESOURCE_EXHAUSTED or UNAVAILABLE
  std::uint64_t preemptions = 0;       // sessions that gave up their memory to others
  std::uint64_t finished_stop = 0;
  std::uint64_t finished_length = 0;
  std::uint64_t finished_cancelled = 0;
  std::uint64_t finished_error = 0;  // and streams that broke
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompts, found among kept keys and values
  std::uint64_t completion_tokens = 0;
  std::uint64_t passes = 0;           // that decided tokens, counted for each rider
  std::uint64_t device_passes = 0;    // the same, each counted once
  std::uint64_t failed_in_a_row = 0;  // turns that ended INTERNAL since the last that ended well
  std::uint64_t rows = 0;             // computed, prefill included
  std::uint64_t prompt_rows = 0;      // of these, the tokens of prompts
  std::uint64_t dead_on_arrival = 0;  // nodes
  std::uint64_t exits_computed = 0;   // guesses of early exits
  std::uint64_t reports_sent = 0;
  std::uint64_t reports_deduplicated = 0;  // another exit had said it in that pass
  std::uint64_t reports_dropped = 0;       // the verdict came first
  Duration compute{0};
  Duration idle{0};      // between passes, while a session waited for the device
  Duration drafting{0};  // by the draft model beside the target
  PruneCounts pruned;
  // EdgeChance::Weights of the streams without a tenant, as an edge's own are; nothing: none.
  std::optional<std::array<double, 3>> edge_weights = {};
};

// The counts of the drafted tokens that a session's passes took.
struct DraftCounts {
  std::uint64_t rounds = 0;  // passes with nodes
  std::uint64_t tokens = 0;
  std::uint64_t accepted = 0;
  std::vector<std::uint64_t> accepted_at;  // [depth - 1]: passes that accepted so deep
  std::uint64_t own_tokens = 0;            // of `tokens`, those of the verifier's own
  std::uint64_t own_accepted = 0;
};

// The usage record of a session that is over.
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

// --- what is set ---------------------------------------------------------------------------------

// In which order exit reports go (exit_reports.h).
enum class ReportQueue : std::uint8_t {
  kGain,      // the likeliest guess first, as verdicts correct what exits state
  kPriority,  // the surest guess first, as exits state it (FSD, algorithm 2)
  kFifo,
};

template <>
inline constexpr auto enum_names<ReportQueue> =
    std::to_array<EnumName<ReportQueue>>({{ReportQueue::kGain, "gain"},
                                          {ReportQueue::kPriority, "priority"},
                                          {ReportQueue::kFifo, "fifo"}});

// The meaning of a guess's confidence (exit_probe.h).
enum class ExitScore : std::uint8_t {
  kCalibrated,  // the probability that it names the whole outcome
  // The greatest probability that the exit gives a token in any row of its walk: the score of FSD,
  // algorithm 2, max(q_{1:delta+1}).
  kMaxSoftmax,
};

template <>
inline constexpr auto enum_names<ExitScore> = std::to_array<EnumName<ExitScore>>(
    {{ExitScore::kCalibrated, "calibrated"}, {ExitScore::kMaxSoftmax, "max-softmax"}});

// The memory for keys and values (kv_pool.h).
struct KvPoolOptions {
  std::int32_t capacity = 0;  // slots of each cache; the scheduler takes them from its limits
  // Sessions of a tenant begin with what its earlier ones computed, if their texts begin alike;
  // else only a session's successor does.
  bool share_prefixes = true;
  std::uint32_t kept = 4;      // the most texts of finished sessions that wait for a successor
  std::int64_t max_bytes = 0;  // of all caches, a draft model's too; 0: no bound
  Duration kept_for{0};        // what is unused goes after so long; 0: never
  // The most of all caches of a tenant, asked on the scheduler's thread; 0: no bound. Empty: no
  // tenant has one.
  std::function<std::int64_t(const std::string& tenant)> tenant_bytes = {};
};

struct SchedulerOptions {
  std::string tokenizer_hash;       // hex, of the target's tokenizer; shown to every edge
  std::string template_hash = {};   // hex, of its chat template; empty: it has none
  std::string server_version = {};  // shown to every edge
  std::string model_name = {};      // also; empty: the model's own
  // The levels of an elastic target ("NAME@60"), by which sessions are answered that name one; the
  // full one first. Empty: the model answers all.
  std::vector<ModelInfo> levels = {};
  std::function<Duration()> wall_clock = {};  // since 1970, shown to every edge; empty: not
  // Sessions of equal or greater urgency (service_tier); the next Open waits in the queue.
  std::uint32_t max_concurrent_sessions = 8;
  std::uint32_t max_queued_requests = 0;  // Opens that wait for a place; the next is refused
  Duration queue_timeout = std::chrono::seconds(30);  // after which one that waits is refused
  std::uint32_t prefill_chunk = 256;  // prompt tokens between which other sessions get their turn
  std::uint32_t max_batched_rows = 256;  // of one pass for several sessions; at least max_rows
  // The source by which the verifier drafts, beside edges that accept it (look_up_draft.h,
  // model_draft.h).
  DraftSource draft_source = DraftSource::kNone;
  bool drafts_forms = true;               // what an answer's form forces (form_draft.h), too
  Model* draft_model = nullptr;           // of a source that uses one; outlives the scheduler
  DraftExperience draft_experience = {};  // what it has shown before
  bool drafts_in_passes = false;          // it has cores of its own, and drafts on meanwhile
  // Called with what the draft model failed of: it drafts no more. Empty: nobody wants to know.
  std::function<void(const Status&)> on_draft_failed = {};
  bool price_rows = true;  // by a market (market.h); false: all rows ride that fit, to compare with
  std::uint32_t prefill_budget = 64;  // prompt tokens of a pass in which others await a verdict
  Position max_positions = 0;         // prefix and answer at most; 0: the model's own limit
  std::uint32_t max_nodes = 64;       // living nodes of a stream; at least 64, which edges rely on
  std::uint32_t max_rows = 33;        // rows of a session in a verifying pass
  std::uint32_t run_ahead = 512;      // tokens past the acknowledged position
  std::uint32_t max_message_bytes = 1 << 20;
  Duration idle_timeout = std::chrono::minutes(2);   // without progress an edge loses its session
  Duration open_timeout = std::chrono::seconds(10);  // from one piece of an Open to the next
  Duration pass_limit{0};  // told to edges as the longest pass; 0: there is none
  KvPoolOptions kv = {};
  // Told the rows of each turn of a tenant, and asked when it may have its next: in the past, now.
  // On the scheduler's thread. Empty: no tenant waits for that.
  std::function<void(const std::string& tenant, std::size_t rows, TimePoint now)> on_rows = {};
  std::function<TimePoint(const std::string& tenant)> tenant_ready_at = {};
  TimePoint ready_at(const StreamOwner& owner) const {
    return tenant_ready_at ? tenant_ready_at(owner.tenant) : TimePoint{};
  }
  Duration retry_after = std::chrono::seconds(2);  // told to who is refused for want of room
  // Called with each session that is over, its last message on its way, on the engine's compute
  // thread; must return soon. Empty: no.
  std::function<void(const SessionRecord&)> on_session_end = {};
  // Called with the time between two verdicts of a session, as on_session_end.
  std::function<void(Duration)> on_verdict_gap = {};
  // The joules that the device has used so far, asked around each pass; nothing: it does not tell.
  std::function<std::optional<double>()> joules = {};
  PassCostBook pass_costs = {};  // what the model's passes took before
  ExitHeads* exits = nullptr;    // of the model; outlives the scheduler. Null: no early exits
  ReportQueue report_queue = ReportQueue::kGain;
  ExitScore exit_score = ExitScore::kCalibrated;
  // Branches with less chance than this by an exit in the middle end there; 0: all go to the end.
  double prune_below = 0;
  PruneRule prune_rule = PruneRule::kBranches;
  double prune_temperature = 1;    // of the scores
  ExitHeads* predictor = nullptr;  // gives that chance; null: `exits` do
  // Logits only of the rows that a verdict's walk comes to (LEVER, section 4.4), where the model
  // can: less work in a pass of many rows.
  bool logits_on_demand = false;
};

}  // namespace outrider
