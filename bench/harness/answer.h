// What outrider-edge says of one answer, as the harness uses it.
//
// Speeds are those of decoding: from the first token's arrival to the last's, over the tokens that
// came after the first verdict. So neither a process's start, nor the prompt's prefill, nor what
// the prefill's own verdict happened to bring counts for or against a strategy.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// What was drafted ahead of verdicts: edges of "fsd" and "mirror" count it.
struct PredraftCounts {
  double verdicts = 0;  // after which a round was wanted
  double hits = 0;
  double partial_hits = 0;
  double late_hits = 0;
  double misses = 0;
  double wanted_tokens = 0;   // of the rounds wanted after those verdicts
  double missing_tokens = 0;  // .. not drafted yet
  double synced = 0;          // verdicts after which the verifier had its next round already
  double ahead_nodes = 0;
  double ahead_dead = 0;
  double surplus_rows = 0;
  std::vector<double> partial_by_length = {};  // [k - 1]: partial hits with k tokens there

  PredraftCounts& operator+=(const PredraftCounts& other);
};

// Sums over the answers of a cell are AnswerFigures too.
struct AnswerFigures {
  double decode_ms = 0;
  double tokens = 0;      // decoded in decode_ms
  double all_tokens = 0;  // of the answer
  double passes = 0;      // of the target in decode_ms
  double rows = 0;        // .. and what they computed
  double compute_ms = 0;  // .. and how long they took
  double rounds = 0;      // .. that verified drafted tokens
  double drafted = 0;     // tokens that these passes verified
  double accepted = 0;
  double draft_steps = 0;
  double draft_ms = 0;
  double payload_up = 0;  // messages, Open with the prompt included
  double payload_down = 0;
  double wire_up = 0;  // TCP payload, measured by the emulated link
  double wire_down = 0;
  std::optional<PredraftCounts> predraft;

  AnswerFigures& operator+=(const AnswerFigures& other);

  // Nothing where there is nothing to divide by.
  std::optional<double> tpot_ms() const;
  std::optional<double> tau() const;  // tokens per pass
  std::optional<double> rows_per_pass() const;
  std::optional<double> pass_ms() const;
  std::optional<double> acceptance() const;
  std::optional<double> passes_per_token() const;
  std::optional<double> miss_rate() const;  // verdicts after which nothing had been drafted
  // The law's r: the share of the drafting left by a verdict. A late hit leaves half of the step
  // that drafts its first token, as the verdict falls anywhere in it.
  std::optional<double> left_rate() const;
};

struct EdgeAnswer {
  std::vector<TokenId> ids;
  std::string speculation;  // how it ended: "ON (..)", "OFF because .."
  AnswerFigures figures;    // wire_up and wire_down are not the edge's to know
};

// Reads the last line of `outrider-edge run --json`. Times are multiplied by time_scale.
// DATA_LOSS names what is missing.
Result<EdgeAnswer> read_edge_answer(std::string_view line, double time_scale);

Json to_json(const PredraftCounts& counts);

}  // namespace outrider
