// The figures of one answer. Definitions are vLLM's where it has one, so that numbers compare:
// acceptance rate = accepted / drafted tokens; acceptance length = 1 + accepted / rounds;
// TPOT = (end to end - TTFT) / (tokens - 1), where the end is the last token. Times are of the
// edge's clock.
//
// Thread rule: a value; owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/protocol/messages.h"
#include "edge_client/metrics/counts.h"
#include "edge_client/metrics/plan_change.h"
#include "edge_client/metrics/predraft_stats.h"
#include "edge_client/metrics/time_spent.h"
#include "edge_client/metrics/verified_round.h"

namespace outrider {

struct DecodingStats {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t completion_tokens = 0;

  std::optional<TimePoint> started;  // the first Open left
  std::optional<TimePoint> first_token;
  std::optional<TimePoint> last_token;
  // Of each verdict that brought tokens: when it came, counted from `started`, and how many.
  std::vector<Duration> chunk_at;
  Counts chunk_tokens;

  // What came with first_token: the prefill's verdict. Speeds of decoding leave it out.
  std::uint64_t first_tokens = 0;
  std::uint64_t first_rows = 0;
  Duration first_compute{0};

  std::uint64_t passes = 0;  // of the target, prefill included
  std::uint64_t rows = 0;    // that they computed
  // [rows - 1]: passes behind the first verdict's, and of these, those that were asked for exits.
  Counts passes_by_rows;
  Counts exit_passes_by_rows;
  Duration target_compute{0};
  Duration target_queued{0};  // runnable, but the device was busy with others

  std::uint64_t num_drafts = 0;  // passes that verified at least one drafted token
  std::uint64_t num_draft_tokens = 0;
  std::uint64_t num_accepted_tokens = 0;
  Counts drafted_per_position;   // [depth - 1]: passes with a node that deep
  Counts accepted_per_position;  // [depth - 1]: passes that accepted so deep

  // [depth - 1][branch], as verified_round.h numbers branches: nodes verified, and those that
  // stood.
  CountsByBranch drafted_per_branch;
  CountsByBranch accepted_per_branch;

  std::uint64_t draft_steps = 0;
  Duration draft_compute{0};

  std::vector<Duration> round_trips;        // request to the pass's start, less queueing
  std::optional<Duration> open_round_trip;  // Open to Opened; includes connecting if that was due
  std::uint64_t reconnects = 0;
  PredraftStats predraft;
  TimeSpent time_spent;

  std::vector<PlanChange> plan_changes;
  std::optional<Usage> usage;  // the verifier's own count, of the last stream

  // One pass with the drafted nodes that it verified.
  void record_round(const VerifiedRound& round);

  std::optional<double> acceptance_rate() const;
  std::optional<double> acceptance_length() const;
  std::optional<double> ttft_ms() const;
  std::optional<double> tpot_ms() const;
  std::optional<double> decode_ms() const;     // from the first token to the last
  std::optional<double> tokens_per_s() const;  // tokens / end-to-end time
  std::optional<double> tokens_per_pass() const;
  std::optional<double> rtt_ms() const;  // median; of Open if nothing better is known
};

}  // namespace outrider
