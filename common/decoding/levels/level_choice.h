// Which level of an elastic model answers a request: the largest whose predicted time keeps what
// the request asks for (ElastiLM, section 3.1).
//
//   ttft = waiting + max(prompt tokens * prefill, pass)        time = ttft + (tokens - 1) * tpot
//
// Joules are time at the device's power: energy_j is a limit of the time that answering takes,
// waiting apart.
//
// A level's times are measured on this device. Its tpot is that of its answers here, drafting
// included, so drafting that pays comes before a smaller level.
//
// A level below the least quality is never chosen for its time: an answer in time that is wrong
// helps nobody. Naming a level always works.
//
// Thread rule: pure functions of their arguments. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/request/slo.h"

namespace outrider {

struct LevelProfile {
  std::string name;
  double prefill_ms = 0;  // of a token of the prompt
  double tpot_ms = 0;     // of a token of the answer
  double pass_ms = 0;     // the least that a pass takes: a level that is streamed has to be read
  double quality = 1;     // of its answers beside the full model's, as level_quality() says
};

// The sizes on which the times of an answer depend.
struct AnswerSize {
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = -1;  // -1: no bound
  double waited_ms = 0;          // since the request came
  double watts = 0;              // of the device while it answers; 0: not known
};

struct PredictedTimes {
  double ttft_ms = 0;
  double tpot_ms = 0;
  std::optional<double> time_ms = {};  // nothing: the answer's length is not known
};

// From this token of an answer on, counted from 0, another level answers.
struct LevelSwitch {
  std::int64_t from_token = 0;
  std::size_t level = 0;
};

struct LevelChoice {
  std::size_t level = 0;               // of the profile
  std::vector<LevelSwitch> then = {};  // as a course says, in order
  bool may_switch = false;             // to keep that time, whatever becomes of the prediction
  bool leaves_loops = false;           // a time chose the level, so a larger one is as welcome
  std::optional<double> time_limit_ms = {};  // time_ms, or that in which energy_j is used up
  double least_quality = 0;                  // of a level to switch to
  std::int64_t expected_tokens = 0;          // of the answer; 0: not known
  PredictedTimes predicted = {};
  bool keeps = true;            // what was asked for
  bool length_assumed = false;  // by earlier answers, where the request has no max_tokens

  // Another level may go on with the answer.
  bool may_change() const { return may_switch || leaves_loops || !then.empty(); }
};

// An objective of what may be unverified chooses no level: the full model answers, or the named
// one. profile: the levels, full first. usual_length: of earlier answers; nothing: there were none.
// least_quality: where the wish names none.
// Errors: those of check_slo() and parse_level_course(); NOT_FOUND listing the levels;
// INVALID_ARGUMENT for time_ms or energy_j without any length, for energy_j where the power is not
// known, and for a strict objective that no level (or not
// the named one) keeps, with the best that there is.
Result<LevelChoice> choose_level(std::span<const LevelProfile> profile, const LevelWish& wish,
                                 const AnswerSize& size, std::optional<std::int64_t> usual_length,
                                 double least_quality = 0);

// An answer that is on its way, and what is left of it.
struct AnswerProgress {
  std::int64_t text_tokens = 0;  // prompt and answer, which another level has to read
  std::int64_t tokens_left = 0;
  double time_left_ms = 0;
  double tpot_ms = 0;        // so far
  double least_quality = 0;  // of the level to go on with
};

// The smaller level with which the answer goes on: the largest that keeps its time, or else the one
// with which it ends soonest. Nothing: the level that answers keeps it, or ends no later than any.
// The other levels are taken to be as much slower than their profiles as this one is.
std::optional<std::size_t> level_to_go_on_with(std::span<const LevelProfile> profile,
                                               std::size_t level, const AnswerProgress& progress);

// The next larger level that is good enough, or else the full one; nothing above the full one.
std::optional<std::size_t> next_larger_level(std::span<const LevelProfile> profile,
                                             std::size_t level, double least_quality);

// The 90th percentile of the lengths of earlier answers; nothing if there are none.
std::optional<std::int64_t> usual_length(std::vector<std::int64_t> lengths);

}  // namespace outrider
