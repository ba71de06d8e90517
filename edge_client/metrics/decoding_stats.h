// The figures of one answer. Definitions are vLLM's where it has one, so that numbers compare:
// acceptance rate = accepted / drafted tokens; acceptance length = 1 + accepted / rounds;
// TPOT = (end to end - TTFT) / (tokens - 1), where the end is the last token. Times are of the
// edge's clock. What is not known is nothing.
//
// Thread rule: a value; owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/metrics/predraft_stats.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/metrics/time_spent.h"
#include "edge_client/metrics/verified_round.h"

namespace outrider {

// The tokens that came with the prefill's verdict: speeds of decoding leave it out.
struct FirstVerdict {
  std::uint64_t tokens = 0;
  std::uint64_t rows = 0;
  Duration compute{0};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("tokens", self.tokens);
    field("rows", self.rows);
    field("compute_ms", self.compute);
  }
};

struct DecodingStats {
  std::uint64_t prompt_tokens = 0;
  std::optional<std::uint64_t> cached_tokens = {};  // of the last stream's prefix
  std::uint64_t completion_tokens = 0;
  std::optional<double> ttft_ms = {};  // since the first Open left
  std::optional<double> tpot_ms = {};
  std::optional<double> decode_ms = {};  // from the first token to the last
  FirstVerdict first_verdict = {};
  std::optional<double> tokens_per_s = {};  // tokens / end-to-end time
  // For each verdict that brought tokens: its time since the first Open left, and their number.
  std::vector<Duration> chunk_at = {};
  Counts chunk_tokens = {};

  std::uint64_t passes = 0;       // of the target, prefill included
  std::uint64_t rows = 0;         // that they computed
  std::uint64_t rows_pruned = 0;  // of those, that did not go to the end of their pass
  std::uint64_t rows_died = 0;    // of those, drafted tokens that did not become text
  // [rows - 1]: passes behind the first verdict's, and of these, those that were asked for exits.
  Counts passes_by_rows = {};
  Counts exit_passes_by_rows = {};
  Duration target_compute{0};
  Duration target_queued{0};  // runnable, but the device was busy with others
  std::optional<double> tokens_per_pass = {};

  std::uint64_t num_drafts = 0;  // passes that verified at least one drafted token
  std::uint64_t num_draft_tokens = 0;
  std::uint64_t num_accepted_tokens = 0;
  std::uint64_t num_server_tokens = 0;  // that the server drafted and that became text
  std::optional<double> acceptance_rate = {};
  std::optional<double> acceptance_length = {};
  std::vector<double> acceptance_per_position = {};  // [depth - 1]
  Counts drafted_per_position = {};                  // [depth - 1]: passes with a node that deep
  Counts accepted_per_position = {};                 // [depth - 1]: passes that accepted so deep

  // [depth - 1][branch], as verified_round.h numbers branches: nodes verified, and those that
  // stood.
  CountsByBranch drafted_per_branch = {};
  CountsByBranch accepted_per_branch = {};

  std::uint64_t draft_steps = 0;
  Duration draft_compute{0};

  std::vector<Duration> round_trips = {};  // request to the pass's start, less queueing
  std::optional<double> rtt_ms = {};  // their median; of the first Open to Opened if there are none
  std::uint64_t reconnects = 0;
  PredraftStats predraft = {};
  TimeSpent time_spent = {};
  std::vector<PlanChange> plan_changes = {};

  // One pass with the drafted nodes that it verified.
  void record_round(const VerifiedRound& round);

  // For common/base/json_record.h: all but round_trips.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("prompt_tokens", self.prompt_tokens);
    field("cached_tokens", self.cached_tokens);
    field("completion_tokens", self.completion_tokens);
    field("ttft_ms", self.ttft_ms);
    field("tpot_ms", self.tpot_ms);
    field("decode_ms", self.decode_ms);
    field("first_verdict", self.first_verdict);
    field("tokens_per_s", self.tokens_per_s);
    field("chunk_ms", self.chunk_at);
    field("chunk_tokens", self.chunk_tokens);
    field("target_passes", self.passes);
    field("target_rows", self.rows);
    field("target_rows_pruned", self.rows_pruned);
    field("target_rows_died", self.rows_died);
    field("passes_by_rows", self.passes_by_rows);
    field("exit_passes_by_rows", self.exit_passes_by_rows);
    field("target_compute_ms", self.target_compute);
    field("target_queued_ms", self.target_queued);
    field("tokens_per_pass", self.tokens_per_pass);
    field("spec_decode_num_drafts", self.num_drafts);
    field("spec_decode_num_draft_tokens", self.num_draft_tokens);
    field("spec_decode_num_accepted_tokens", self.num_accepted_tokens);
    field("spec_decode_num_server_tokens", self.num_server_tokens);
    field("spec_decode_acceptance_rate", self.acceptance_rate);
    field("spec_decode_acceptance_length", self.acceptance_length);
    field("spec_decode_per_position_acceptance_rates", self.acceptance_per_position);
    field("spec_decode_drafted_per_position", self.drafted_per_position);
    field("spec_decode_accepted_per_position", self.accepted_per_position);
    field("spec_decode_drafted_per_branch", self.drafted_per_branch);
    field("spec_decode_accepted_per_branch", self.accepted_per_branch);
    field("draft_steps", self.draft_steps);
    field("draft_ms", self.draft_compute);
    field("rtt_ms", self.rtt_ms);
    field("reconnects", self.reconnects);
    field("predraft", self.predraft);
    field("time_spent_ms", self.time_spent);
    field("plan_changes", self.plan_changes);
  }
};

}  // namespace outrider
