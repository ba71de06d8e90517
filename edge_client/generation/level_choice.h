// Which level of an elastic model answers a request: the largest whose predicted time keeps what
// the request asks for (ElastiLM, section 3.1).
//
//   ttft = waiting + prompt tokens * prefill        time = ttft + (tokens - 1) * tpot
//
// A level's times are measured on this device. Its tpot is that of its answers here, drafting
// included, so drafting that pays comes before a smaller level.
//
// Thread rule: pure functions of their arguments. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/sampling/slo.h"

namespace outrider {

struct LevelProfile {
  std::string name;
  double prefill_ms = 0;  // of a token of the prompt
  double tpot_ms = 0;     // of a token of the answer
};

// What the times of an answer hang on.
struct AnswerSize {
  std::int64_t prompt_tokens = 0;
  std::int64_t max_tokens = -1;  // -1: no bound
  double waited_ms = 0;          // since the request came
};

struct PredictedTimes {
  double ttft_ms = 0;
  double tpot_ms = 0;
  std::optional<double> time_ms = {};  // nothing: the answer's length is not known
};

struct LevelChoice {
  std::size_t level = 0;  // of the profile
  PredictedTimes predicted;
  bool keeps = true;            // what was asked for
  bool length_assumed = false;  // by earlier answers, where the request has no max_tokens
};

// INVALID_ARGUMENT for an objective that is not above 0, or asks for a first token later than the
// whole answer.
Status check_slo(const Slo& slo);

// profile: the levels, full first. usual_length: of earlier answers; nothing: there were none.
// Errors: those of check_slo(); NOT_FOUND listing the levels; INVALID_ARGUMENT for time_ms without
// any length, and for a strict objective that no level (or not the named one) keeps, with the best
// that there is.
Result<LevelChoice> choose_level(std::span<const LevelProfile> profile, const LevelWish& wish,
                                 const AnswerSize& size, std::optional<std::int64_t> usual_length);

// The 90th percentile of the lengths of earlier answers; nothing if there are none.
std::optional<std::int64_t> usual_length(std::vector<std::int64_t> lengths);

}  // namespace outrider
