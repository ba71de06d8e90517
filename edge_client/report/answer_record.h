// The figures of one answer as programs exchange them: the line of JSON that outrider-edge ends an
// answer with, and that outrider-bench reads. Each field stands once, with its key. Definitions:
// edge_client/metrics/decoding_stats.h.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/ledger/ledger_entry.h"
#include "edge_client/failover/failover_options.h"
#include "edge_client/metrics/counts.h"
#include "edge_client/metrics/plan_change.h"
#include "edge_client/metrics/predraft_stats.h"
#include "edge_client/metrics/time_spent.h"
#include "edge_client/session/events.h"

namespace outrider {

// Bytes of messages to and from the server, of one answer.
struct LinkTraffic {
  std::uint64_t payload_up = 0;
  std::uint64_t payload_down = 0;
  std::uint64_t framed_up = 0;
  std::uint64_t framed_down = 0;

  friend LinkTraffic operator-(const LinkTraffic& after, const LinkTraffic& before) {
    return {after.payload_up - before.payload_up, after.payload_down - before.payload_down,
            after.framed_up - before.framed_up, after.framed_down - before.framed_down};
  }
};

// What came with the prefill's verdict: speeds of decoding leave it out.
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

struct TrafficRecord {
  LinkTraffic bytes;
  std::optional<double> per_token_up = {};  // framed
  std::optional<double> per_token_down = {};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("payload_up", self.bytes.payload_up);
    field("payload_down", self.bytes.payload_down);
    field("framed_up", self.bytes.framed_up);
    field("framed_down", self.bytes.framed_down);
    field("per_token_up", self.per_token_up);
    field("per_token_down", self.per_token_down);
  }
};

// Where the passes of a target that is streamed from flash spent their time. They read while they
// compute: length = computing + waiting for reads = reading + disk idle.
struct StreamedRecord {
  std::uint64_t passes = 0;
  std::uint64_t bytes_read = 0;  // in the passes, and ahead for the next one
  Duration length{0};
  Duration computing{0};
  Duration waiting{0};
  Duration reading{0};
  Duration disk_idle{0};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("passes", self.passes);
    field("bytes_read", self.bytes_read);
    field("length_ms", self.length);
    field("computing_ms", self.computing);
    field("waiting_ms", self.waiting);
    field("reading_ms", self.reading);
    field("disk_idle_ms", self.disk_idle);
  }
};

// Figures that are not known are null.
struct AnswerRecord {
  std::string text;
  std::vector<TokenId> ids;
  Ending ending = Ending::kFailed;
  std::string stopped_by;   // for the reader
  std::string strategy;     // its name
  std::string speculation;  // how it ended: "ON (..)", "OFF because .."
  std::string target;
  std::optional<std::string> draft;

  std::uint64_t prompt_tokens = 0;
  std::optional<std::uint64_t> cached_tokens;
  std::uint64_t completion_tokens = 0;
  std::optional<double> ttft_ms;
  std::optional<double> tpot_ms;
  std::optional<double> decode_ms;
  FirstVerdict first_verdict;
  std::optional<double> tokens_per_s;
  std::vector<Duration> chunk_at;  // since the start, of each arrival of tokens
  Counts chunk_tokens;             // how many arrived then

  std::uint64_t passes = 0;
  std::uint64_t rows = 0;
  std::uint64_t rows_pruned = 0;  // of those, that did not go to the end of their pass
  std::uint64_t rows_died = 0;    // of those, drafted tokens that did not become text
  Counts passes_by_rows;
  Counts exit_passes_by_rows;
  Duration target_compute{0};
  Duration target_queued{0};
  std::optional<double> tokens_per_pass;

  std::uint64_t num_drafts = 0;
  std::uint64_t num_draft_tokens = 0;
  std::uint64_t num_accepted_tokens = 0;
  std::optional<double> acceptance_rate;
  std::optional<double> acceptance_length;
  std::vector<double> acceptance_per_position;
  Counts drafted_per_position;
  Counts accepted_per_position;
  CountsByBranch drafted_per_branch;
  CountsByBranch accepted_per_branch;

  std::uint64_t draft_steps = 0;
  Duration draft_compute{0};
  bool draft_paced = false;          // the draft's times are emulated
  std::uint64_t draft_overruns = 0;  // steps that were slower than that pace
  std::optional<double> rtt_ms;
  std::uint64_t reconnects = 0;
  Mode mode = Mode::kOnline;
  double offline_seconds = 0;  // while this device's target decided
  std::uint64_t failovers = 0;
  std::uint64_t handbacks = 0;
  std::optional<TrafficRecord> traffic;    // nothing for a resident target
  std::optional<StreamedRecord> streamed;  // nothing: no pass was streamed
  std::optional<double> joules;            // of this machine's processors meanwhile
  std::optional<Bill> bill;                // nothing: there are no prices
  PredraftStats predraft;
  TimeSpent time_spent;
  std::vector<PlanChange> plan_changes;

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("text", self.text);
    field("ids", self.ids);
    field("stop_reason", self.ending);
    field("stopped_by", self.stopped_by);
    field("strategy", self.strategy);
    field("speculation", self.speculation);
    field("target", self.target);
    field("draft", self.draft);
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
    field("spec_decode_acceptance_rate", self.acceptance_rate);
    field("spec_decode_acceptance_length", self.acceptance_length);
    field("spec_decode_per_position_acceptance_rates", self.acceptance_per_position);
    field("spec_decode_drafted_per_position", self.drafted_per_position);
    field("spec_decode_accepted_per_position", self.accepted_per_position);
    field("spec_decode_drafted_per_branch", self.drafted_per_branch);
    field("spec_decode_accepted_per_branch", self.accepted_per_branch);
    field("draft_steps", self.draft_steps);
    field("draft_ms", self.draft_compute);
    field("draft_pace_emulated", self.draft_paced);
    field("draft_pace_overruns", self.draft_overruns);
    field("rtt_ms", self.rtt_ms);
    field("reconnects", self.reconnects);
    field("mode", self.mode);
    field("offline_seconds_total", self.offline_seconds);
    field("failovers_total", self.failovers);
    field("handbacks_total", self.handbacks);
    field("bytes", self.traffic);
    field("streamed", self.streamed);
    field("joules", self.joules);
    field("bill", self.bill);
    field("predraft", self.predraft);
    field("time_spent_ms", self.time_spent);
    field("plan_changes", self.plan_changes);
  }
};

// One line without its end. Text that is not UTF-8 is written with replacement characters.
std::string to_line(const AnswerRecord& record);

// Reads such a line; `what` names it in errors. DATA_LOSS names the figure that is missing.
Result<AnswerRecord> read_answer_record(std::string_view line, const std::string& what);

}  // namespace outrider
