// The printed figures of LEVER, EdgeLLM and LLMCad, for `outrider-bench reproduce`, and what
// follows from it by arithmetic. FSD's tables are in fsd_tables.h.
//
// Thread rule: pure functions and constants. Units: milliseconds where a name says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace outrider {

// LEVER, tables 1 and 2: a pass of a target on a phone, per model.
struct LeverTimes {
  std::string_view model;
  double compute_ms = 0;  // of one row
  double read_ms = 0;
  double total_ms = 0;      // printed
  double read_percent = 0;  // printed
  double rows16_ms = 0;     // "Verify" of its table 2; of 4B and 14B by the proportion of reading
  double rows32_ms = 0;
  bool rows_printed = false;
};
std::span<const LeverTimes> lever_table1();
const LeverTimes& lever_times(std::string_view model);

// LEVER, table 2: "wasted verification" with a budget of so many tokens.
struct LeverWaste {
  std::string_view model;
  int budget = 0;
  double verify_ms = 0;
  double waste_ms = 0;
  double waste_percent = 0;
};
std::span<const LeverWaste> lever_table2();

// LLMCad, table 1: one autoregressive iteration, by size. EdgeLLM's figure 1 is of the same runs.
struct LlmcadDelay {
  std::string_view model;
  std::string_view first;  // the smallest of its family, which fits into memory
  double parameters = 0;   // in billions
  double gigabytes = 0;    // "PeakMem"
  double ms = 0;
  double times = 0;  // printed: over the first of the family
};
std::span<const LlmcadDelay> llmcad_table1();

// A target and its draft of that table.
struct LlmcadPair {
  double draft_ms = 0;   // of a step
  double target_ms = 0;  // of one iteration, reading included
  double size_ratio = 0;

  // A row of the target computes as long as the draft's step, times its parameters.
  double compute_ms() const { return draft_ms * size_ratio; }
  double loading_share() const { return (target_ms - compute_ms()) / target_ms; }
};
LlmcadPair llmcad_pair(std::string_view target);

// EdgeLLM, section IV-G, in its text: a step of the draft, a verification, and a step of the draft
// while the target verifies, in seconds.
struct EdgellmParts {
  std::string_view model;
  double generation_s = 0;
  double verification_s = 0;
  double provisional_s = 0;
};
std::span<const EdgellmParts> edgellm_figure20();

// EdgeLLM, table I: the share of tokens that the draft generates as the target does.
struct EdgellmCorrect {
  std::string_view data_set;
  std::string_view pair;
  std::string_view pace;  // of bench/trees; its pair stands on this device
  double share = 0;
};
std::span<const EdgellmCorrect> edgellm_table1();

// A range that a paper states in words.
struct PrintedRange {
  double low = 0;
  double high = 0;

  // The end that is closer: what a value is set beside.
  double nearest(double value) const { return value - low < high - value ? low : high; }
};

}  // namespace outrider
