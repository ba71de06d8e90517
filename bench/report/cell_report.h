// The figures of a report, cell by cell, with their spread, from a run's requests.
//
//   TTFT         from the request to the first token
//   TPOT         (end to end - TTFT) / (tokens - 1), of each request
//   inter-chunk  between two arrivals of tokens, all requests together
//   E2EL         from the request to the last token
//   tokens/s     of decoding: tokens after the first arrival / time after it, all requests together
//   speculation on  the share of the tokens that were decoded while the edge speculated
//   goodput      the share of the requests that kept every limit that was set
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/cost/cell_cost.h"
#include "bench/harness/answer.h"
#include "bench/harness/grid.h"
#include "bench/stats/statistics.h"
#include "common/base/json.h"

namespace outrider {

// The resources that the answers of a cell used, for its costs.

// The mean of the answers.
AnswerUse use_of(std::span<const EdgeAnswer* const> answers);

// Limits for a request; nothing: no limit.
struct ServiceLimits {
  std::optional<double> e2el_ms = {};  // --deadline-ms
  std::optional<double> ttft_ms = {};
  std::optional<double> tpot_ms = {};

  bool any() const { return e2el_ms || ttft_ms || tpot_ms; }
  bool kept_by(const AnswerRecord& record) const;
};

// The modelled energy of a cell's requests; the mean of those that did not fail.
struct CellEnergy {
  AnswerEnergy mean = {};
  double tokens_per_answer = 0;
  std::optional<Estimate> joules_per_token, device_joules_per_token;
};

// The values of one request that a later comparison needs.
struct RequestSample {
  std::uint64_t prompt = 0;
  std::uint64_t repetition = 0;
  double decode_ms = 0;
  double tokens = 0;  // decoded in decode_ms

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("prompt", self.prompt);
    field("repetition", self.repetition);
    field("decode_ms", self.decode_ms);
    field("tokens", self.tokens);
  }
};

// Over the requests that both cells have.
struct PairedSpeedup {
  std::size_t pairs = 0;
  std::optional<Estimate> speedup;  // of `samples` over `base`
};
PairedSpeedup paired_speedup(const std::vector<RequestSample>& base,
                             const std::vector<RequestSample>& samples);

// Answers of edges that give by a deadline what they expect of an answer (--slo-unverified).
struct ByDeadline {
  std::size_t verified = 0;   // whole by then, all of it the target's own
  std::size_t confirmed = 0;  // whole by then with the draft's part, which the target said later
  std::size_t corrected = 0;  // the same, but the target said something else
  std::size_t cut = 0;        // the same, but the answer was cut before it was decided

  std::size_t unverified() const { return confirmed + corrected + cut; }
  std::size_t whole() const { return verified + unverified(); }
};

struct CellReport {
  const GridSetting* setting = nullptr;
  const GridVariant* variant = nullptr;
  int gamma = 0;
  std::string link_kind;
  std::size_t requests = 0;
  std::size_t failures = 0;
  std::size_t mismatches = 0;
  std::size_t deadline_missed = 0;
  std::optional<double> goodput;          // of the requests; nothing without limits
  std::optional<ByDeadline> by_deadline;  // nothing: nothing unverified is given
  std::optional<Spread> ttft_ms, tpot_ms, inter_chunk_ms, e2el_ms;
  std::vector<double> e2el_samples;    // of the requests, ascending
  std::vector<RequestSample> samples;  // of the requests that did not fail
  std::optional<double> rtt_p50_ms;    // measured by the edges
  AnswerUse use;                       // what the requests that did not fail used
  std::optional<CellCost> cost;        // by a file of prices, if one was given
  std::optional<CellEnergy> energy;    // by device files, if they were given
  std::optional<LinkCounts> link;      // its counts during these requests
  AnswerFigures sum;                   // of the requests that all variants answered
  std::optional<Estimate> tokens_per_s;
  std::optional<Estimate> over_ar;
  std::optional<Estimate> acceptance, exit_hit_rate;
  double speculation_on = 0;        // share of tokens
  std::optional<double> agreement;  // with the target's text, of a contender with its own text
  std::vector<double> accepted_by_position;  // share of the rounds

  bool valid() const { return mismatches == 0 && failures < requests; }
  // Whether it decodes the target's text, so that its speed can be compared.
  bool competes() const { return valid() && !agreement; }
};

// The link's own round trip, or on a real network the one that the edges measured.
double round_trip_ms(const CellReport& cell);

// Devices and data set: the same for settings that differ in their network only.
std::string device_name(const CellReport& cell);

// The variant with which the others are compared; empty: there is none.
std::string plain_name(std::span<const GridVariant> variants);

// Cells in the grid's order.
std::vector<CellReport> cell_reports(const GridPlan& plan, const GridResult& result,
                                     const ServiceLimits& limits);

// A cell's figures as the JSON of a report; bench/benchmarks.md describes its fields.
Json to_json(const Spread& spread);
Json to_json(const CellReport& cell, RunClock clock);

// The fastest variants at a setting, as far as the intervals allow.

// The valid cells of one setting that decode the target's text and may be the fastest, in order of
// speed. A cell is left out if the fastest is clearly faster: the 95 % interval of the ratio,
// request by request, lies above 1. A single cell is the fastest; between several it is undecided;
// empty if no cell is valid.
std::vector<const CellReport*> winners(std::span<const CellReport* const> setting);

// How many settings each variant wins, in words.
std::string winners_line(std::span<const CellReport> cells);

}  // namespace outrider
