// The figures of one answer as programs exchange them: the line of JSON that outrider-edge ends an
// answer with, and that outrider-bench reads. Each field stands once, with its key. Definitions:
// edge_client/metrics/decoding_stats.h, whose figures the session's recorder counts.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/request/slo.h"
#include "common/engine/sampling/logprobs.h"
#include "common/serving/ledger/ledger_entry.h"
#include "edge_client/failover/failover_options.h"
#include "edge_client/metrics/decoding_stats.h"
#include "edge_client/session/events.h"
#include "edge_client/session/provisional_text.h"

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

struct TrafficRecord {
  LinkTraffic bytes;
  std::optional<double> per_token_up = {};  // framed
  std::optional<double> per_token_down = {};

  static TrafficRecord of(const LinkTraffic& bytes, std::uint64_t tokens);

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

enum class UnverifiedOutcome : std::uint8_t {
  kInTime,     // the whole answer was verified by the deadline: nothing unverified was given
  kConfirmed,  // the target has said what was given
  kCorrected,
};

template <>
inline constexpr auto enum_names<UnverifiedOutcome> =
    std::to_array<EnumName<UnverifiedOutcome>>({{UnverifiedOutcome::kInTime, "in_time"},
                                                {UnverifiedOutcome::kConfirmed, "confirmed"},
                                                {UnverifiedOutcome::kCorrected, "corrected"}});

// The part of an answer that was ready by its deadline (slo.unverified), and its outcome.
struct UnverifiedRecord {
  std::string text = {};                // that was given: verified, and then the draft's
  bool whole = false;                   // the draft had come to the answer's end
  std::uint64_t verified_tokens = 0;    // that it begins with
  std::optional<double> after_ms = {};  // since the request came; nothing: nothing was given
  std::optional<UnverifiedOutcome> outcome = {};  // nothing: the answer was cut before its end

  // given: nothing if the answer was whole by then. The outcome is still to come.
  static UnverifiedRecord of(const std::optional<DeadlineDecorator::Given>& given,
                             TimePoint came_at);
  // The answer has ended so, with this text.
  void settle(Ending ending, const std::string& answer);

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("text", self.text);
    field("whole", self.whole);
    field("verified_tokens", self.verified_tokens);
    field("after_ms", self.after_ms);
    field("outcome", self.outcome);
  }
};

// A token and its log-probability, as the target gives it before settings and filters.
struct LikelyTokenRecord {
  TokenId id = 0;
  double logprob = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("id", self.id);
    field("logprob", self.logprob);
  }
};

// The same of a token of the answer, and the likeliest at its place.
struct LogprobRecord {
  TokenId id = 0;
  double logprob = 0;
  std::vector<LikelyTokenRecord> top = {};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("id", self.id);
    field("logprob", self.logprob);
    field("top_logprobs", self.top);
  }
};

// Both have the same length.
std::vector<LogprobRecord> logprob_records(std::span<const TokenId> ids,
                                           std::span<const TokenLogprobs> logprobs);

// Figures that are not known are null.
struct AnswerRecord {
  std::string text;
  std::vector<TokenId> ids;
  Ending ending = Ending::kFailed;
  std::string stopped_by;             // for the reader
  std::string strategy;               // its name
  std::string speculation;            // how it ended: "ON (..)", "OFF because .."
  std::optional<std::uint64_t> seed;  // by which it can be repeated; nothing: any does
  std::string target;                 // the last that decided
  std::string arithmetic;             // its arithmetic id; empty: none opened
  std::optional<std::string> draft;
  DecodingStats stats;
  bool draft_paced = false;          // the draft's times are emulated
  std::uint64_t draft_overruns = 0;  // steps that were slower than that pace
  Mode mode = Mode::kOnline;
  FailoverFigures failover;
  std::optional<TrafficRecord> traffic;                // nothing for a resident target
  std::optional<StreamedRecord> streamed;              // nothing: no pass was streamed
  std::optional<double> joules;                        // of this machine's processors meanwhile
  std::optional<Bill> bill;                            // nothing: there are no prices
  std::optional<LevelRecord> level;                    // nothing: the target has no levels
  std::optional<UnverifiedRecord> unverified;          // nothing: not asked for
  std::optional<std::vector<LogprobRecord>> logprobs;  // the same

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("text", self.text);
    field("ids", self.ids);
    field("stop_reason", self.ending);
    field("stopped_by", self.stopped_by);
    field("strategy", self.strategy);
    field("speculation", self.speculation);
    field("seed", self.seed);
    field("target", self.target);
    field("arithmetic", self.arithmetic);
    field("draft", self.draft);
    DecodingStats::visit_fields(self.stats, field);
    field("draft_pace_emulated", self.draft_paced);
    field("draft_pace_overruns", self.draft_overruns);
    field("mode", self.mode);
    FailoverFigures::visit_fields(self.failover, field);
    field("bytes", self.traffic);
    field("streamed", self.streamed);
    field("joules", self.joules);
    field("bill", self.bill);
    field("level", self.level);
    field("unverified", self.unverified);
    field("logprobs", self.logprobs);
  }
};

// One line without its end. Text that is not UTF-8 is written with replacement characters.
std::string to_line(const AnswerRecord& record);

// Reads such a line; `what` names it in errors. DATA_LOSS names the figure that is missing.
Result<AnswerRecord> read_answer_record(std::string_view line, const std::string& what);

}  // namespace outrider
