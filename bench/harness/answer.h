// One answer of outrider-edge, as the harness evaluates it.
//
// Speeds are those of decoding: from the first token's arrival to the last's, over the tokens after
// the first verdict. So a process's start, the prompt's prefill and the yield of the prefill's
// verdict do not count.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/cost/energy.h"
#include "bench/stats/statistics.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "edge_client/report/answer_record.h"
#include "emulation/path/link_condition.h"

namespace outrider {

// Sums over the answers of a cell are AnswerFigures too.
struct AnswerFigures {
  double decode_ms = 0;
  double tokens = 0;      // decoded in decode_ms
  double all_tokens = 0;  // of the answer
  double passes = 0;      // of the target in decode_ms
  double rows = 0;        // computed by these passes
  double compute_ms = 0;  // of these passes
  double rounds = 0;      // those of these passes that verified drafted tokens
  double drafted = 0;     // tokens that these passes verified
  double accepted = 0;
  // [rows - 1]: of `passes`, those of so many rows; and of these, those with exits.
  Counts passes_by_rows;
  Counts exit_passes_by_rows;
  double draft_steps = 0;
  double draft_ms = 0;
  double draft_overruns = 0;  // steps slower than their emulated pace
  double payload_up = 0;      // messages, Open with the prompt included
  double payload_down = 0;
  double wire_up = 0;  // TCP payload, measured by the emulated link
  double wire_down = 0;
  // Modelled, of the whole answer; 0 without a model.
  double joules = 0;
  double device_joules = 0;
  std::optional<PredraftStats> predraft;
  // The counts of all passes, including the prefill.
  CountsByBranch drafted_per_branch;
  CountsByBranch accepted_per_branch;

  AnswerFigures& operator+=(const AnswerFigures& other);

  // Nothing if the divisor is 0.
  std::optional<double> tpot_ms() const;
  std::optional<double> tau() const;  // tokens per pass
  std::optional<double> rows_per_pass() const;
  std::optional<double> pass_ms() const;
  std::optional<double> acceptance() const;
  std::optional<double> passes_per_token() const;
  std::optional<double> wire_up_per_token() const;
  std::optional<double> joules_per_token() const;
  std::optional<double> device_joules_per_token() const;
  // The paper's r: the share of verdicts whose next round was not completely in the cache.
  std::optional<double> miss_rate() const;
  std::optional<double> exit_hit_rate() const;  // 1 - r
  // The share of verdicts with such a miss where a part of the round was there or being drafted.
  std::optional<double> partial_rate() const;
  // The paper's "Avg EE": the mean layer of the exits that named the outcomes of hits.
  std::optional<double> mean_exit() const;
  // The law's r: the share of the drafting that is left at a verdict. A late hit leaves half of the
  // step that drafts its first token on average, because the verdict may come at any time in it.
  std::optional<double> left_rate() const;
};

struct EdgeAnswer {
  AnswerRecord record;
  AnswerFigures figures;   // without wire_up and wire_down, which the edge cannot know
  std::string trace = {};  // its Chrome trace (metrics/timeline.h); empty: none was recorded
  // The link's counts meanwhile; nothing if we did not emulate it.
  std::optional<LinkCounts> link = {};
  // Nothing without a model of the devices' power.
  std::optional<AnswerEnergy> energy = {};
};

// Takes the energy into the answer and its figures.
void add_energy(const AnswerEnergy& energy, EdgeAnswer& answer);

// The share of an answer's tokens that were decoded with speculation on.
double speculation_share(const AnswerRecord& record);

// Reads the last line of `outrider-edge run --json`. DATA_LOSS names what is missing.
Result<EdgeAnswer> read_edge_answer(std::string_view line);

// The answer with its figures, as above. DATA_LOSS if the edge did not report a figure that each
// decoded answer over a link has.
Result<EdgeAnswer> edge_answer_of(AnswerRecord record);

// A figure of all answers together: of their sum, so long answers weigh more.
std::optional<Estimate> estimate(std::span<const AnswerFigures> answers,
                                 std::optional<double> (AnswerFigures::*figure)() const);

inline std::optional<Estimate> tpot_of(std::span<const AnswerFigures> answers) {
  return estimate(answers, &AnswerFigures::tpot_ms);
}

// A figure of `base` over that of `answers`, with each prompt compared with itself; nothing if one
// of them is missing or 0.
std::optional<Estimate> improvement(std::span<const AnswerFigures> base,
                                    std::span<const AnswerFigures> answers,
                                    std::optional<double> (AnswerFigures::*figure)() const);

// The ratio of the speeds of `answers` and `base`.
std::optional<Estimate> speedup(std::span<const AnswerFigures> base,
                                std::span<const AnswerFigures> answers);

AnswerFigures sum_of(std::span<const AnswerFigures> answers);
// The same for the answers that were drawn.
AnswerFigures sum_at(std::span<const AnswerFigures> answers, std::span<const std::size_t> indices);

}  // namespace outrider
