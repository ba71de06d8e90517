// What an answer brought, and its figures for people and for machines. Definitions:
// edge_client/metrics/decoding_stats.h.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ledger/ledger_entry.h"
#include "edge_client/failover/failover_options.h"
#include "edge_client/metrics/decoding_stats.h"
#include "edge_client/report/answer_record.h"
#include "edge_client/session/events.h"

namespace outrider {

struct AnswerReport {
  std::string text;
  std::vector<TokenId> ids;
  DecodingStats stats;
  Finish finish;
  std::string stop_string;             // that ended it; empty: none
  std::optional<LinkTraffic> traffic;  // nothing for a resident target

  std::optional<StreamedRecord> streamed;  // nothing: no pass was streamed
  std::optional<double> joules;            // of this machine's processors meanwhile
  std::optional<Bill> bill;                // nothing: there are no prices

  Mode mode = Mode::kOnline;
  FailoverFigures failover;
  std::string target;       // the last that decided
  Position context = 0;     // of prompt and answer, as that target holds; 0: none has opened
  std::string draft;        // empty: none
  std::string strategy;     // its name
  std::string assumed;      // what it began with, for the reader; empty: nothing was known
  std::string speculation;  // how it ended: "ON (..)", "OFF because .."
  bool paced = false;       // the draft's times are emulated
  std::uint64_t pace_overruns = 0;  // steps of the draft that were slower than that
};

// "end of text", "stop string \"..\"", "length", ..
std::string why_stopped(const AnswerReport& report);

// Aligned lines, each ended.
std::string stats_block(const AnswerReport& report);

// What was assumed at first, where the time went, what the controller changed: aligned lines, each
// ended.
std::string explanation(const AnswerReport& report);

// The answer as other programs read it.
AnswerRecord record_of(const AnswerReport& report);

inline std::string stats_json(const AnswerReport& report) {
  return to_line(record_of(report));
}

}  // namespace outrider
