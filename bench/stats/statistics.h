// Estimates over prompts, or other samples, with 95 % intervals, and the bars that they are held
// to.
//
// The interval is the percentile bootstrap: prompts are drawn with replacement, all strategies of a
// prompt together, so that a ratio's interval knows that both sides answered the same prompts. The
// draws come from a fixed seed: the same figures give the same interval.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/interval.h"
#include "common/base/json.h"

namespace outrider {

struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  // nothing for a single prompt
};
Json to_json(const Estimate& estimate);

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

// One figure over requests: its mean and how it spreads.
struct Spread {
  std::size_t count = 0;
  Estimate mean;
  double deviation = 0;  // standard, of the sample
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0;
};

// Nothing without samples.
std::optional<Spread> spread_of(const std::vector<double>& samples);

// Quantiles by order statistics: no resampling, any number of samples.
// samples: not empty.
Estimate sample_quantile(std::vector<double> samples, double share);

// Of samples that were counted: counts[i] lie in [i, i + 1) steps and are taken as the upper end.
// Some count is not 0.
Estimate counted_quantile(std::span<const std::uint64_t> counts, double step, double share);

// What a measured value must reach for a claim to stand, held on the end of its interval that is
// closer to failing: a claim that noise could have made is not met.
struct Bar {
  enum class Side : std::uint8_t { kAtLeast, kAtMost, kWithin };  // kWithin: of ±limit

  std::string name;
  Estimate value;
  double limit = 0;
  Side side = Side::kAtLeast;

  // The end of the interval that is closer to failing; the value itself without an interval.
  double near_end() const;
  bool met() const;

  // One line for people, without its end.
  std::string to_string() const;
};

Json to_json(std::span<const Bar> bars);

}  // namespace outrider
