// The result of an answer, and its figures for people and for machines. Definitions:
// edge_client/metrics/decoding_stats.h.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/report/answer_record.h"
#include "edge_client/session/events.h"
#include "edge_client/speculation/pair_profile.h"

namespace outrider {

struct AnswerReport {
  AnswerRecord record;  // its ending and stopped_by are those of `finish`: record_of() sets them
  Finish finish;
  std::string stop_string;  // that ended it; empty: none
  Position context = 0;     // of prompt and answer, as the target holds; 0: none has opened
  std::vector<std::string> record_lines;  // of the answer's record; empty: it was not asked for
  std::string assumed;  // what it began with, for the reader; empty: nothing was known
};

// "end of text", "stop string \"..\"", "length", ..
std::string why_stopped(const AnswerReport& report);

// Aligned lines, each ended.
std::string stats_block(const AnswerReport& report);

// The first assumptions, the uses of the time, and the controller's changes: aligned lines, each
// ended.
std::string explanation(const AnswerReport& report);

// The assumptions of an answer about the server, the draft and the link before it had measured
// anything: lines for people, each ended; empty where nothing was known.
std::string assumed_text(const Opened& opened, const PairProfiles& learnt);

// The figures of drafting ahead: aligned lines, each ended; empty if nothing was drafted ahead.
std::string predraft_lines(const PredraftStats& stats);

// Where the time went, and what the controller changed: aligned lines, each ended.
std::string explain_block(const DecodingStats& stats);

// The answer as other programs read it.
AnswerRecord record_of(const AnswerReport& report);

inline std::string stats_json(const AnswerReport& report) {
  return to_line(record_of(report));
}

}  // namespace outrider
