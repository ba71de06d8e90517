// Estimates over prompts, or other samples, with 95 % intervals.
//
// The interval is the percentile bootstrap: prompts are drawn with replacement, all strategies of a
// prompt together, so that a ratio's interval knows that both sides answered the same prompts. The
// draws come from a fixed seed: the same figures give the same interval.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "bench/harness/answer.h"
#include "common/base/interval.h"

namespace outrider {

struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  // nothing for a single prompt
};

// statistic: of the prompts whose indices it gets; nothing where it is not defined.
std::optional<Estimate> bootstrap(
    std::size_t prompts,
    const std::function<std::optional<double>(std::span<const std::size_t>)>& statistic);

// Of samples that stand for themselves. share: 0.5 for the median.
double quantile(std::vector<double> samples, double share);
std::optional<Estimate> median(std::span<const double> samples);

// How many times larger the median of `samples` is than that of `base`. Both have one sample for
// each turn: the two of a turn are drawn together.
std::optional<Estimate> ratio_of_medians(std::span<const double> base,
                                         std::span<const double> samples);

// A figure of all answers together: of their sum, so that long answers weigh more.
std::optional<Estimate> estimate(std::span<const AnswerFigures> answers,
                                 std::optional<double> (AnswerFigures::*figure)() const);

inline std::optional<Estimate> tpot_of(std::span<const AnswerFigures> answers) {
  return estimate(answers, &AnswerFigures::tpot_ms);
}

// How many times faster `answers` are than `base`, prompt by prompt the same.
std::optional<Estimate> speedup(std::span<const AnswerFigures> base,
                                std::span<const AnswerFigures> answers);

// How much more of a figure `answers` have than `base`, prompt by prompt the same.
std::optional<Estimate> difference(std::span<const AnswerFigures> base,
                                   std::span<const AnswerFigures> answers,
                                   std::optional<double> (AnswerFigures::*figure)() const);

// Whether an estimate of a difference leaves out 0: anything less is noise.
inline bool leaves_out_zero(const std::optional<Estimate>& difference) {
  return difference && difference->interval &&
         (difference->interval->low > 0 || difference->interval->high < 0);
}

AnswerFigures sum_of(std::span<const AnswerFigures> answers);
// The same of those that were drawn.
AnswerFigures sum_at(std::span<const AnswerFigures> answers, std::span<const std::size_t> indices);

}  // namespace outrider
