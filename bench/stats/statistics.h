// Estimates over prompts, or other samples, with 95 % intervals, and the bars that apply to them.
//
// The interval is the percentile bootstrap. Prompts are drawn with replacement, all strategies of a
// prompt together, because both sides of a ratio answered the same prompts. The seed is fixed, so
// the same figures give the same interval.
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

// statistic: of the prompts with these indices; nothing if it is not defined.
std::optional<Estimate> bootstrap(
    std::size_t prompts,
    const std::function<std::optional<double>(std::span<const std::size_t>)>& statistic);

// The quantile of independent samples. share: 0.5 for the median.
double quantile(std::vector<double> samples, double share);
std::optional<Estimate> median(std::span<const double> samples);

// The ratio of the medians of `samples` and `base`. Both have one sample per turn: the two of a
// turn are drawn together.
std::optional<Estimate> ratio_of_medians(std::span<const double> base,
                                         std::span<const double> samples);

// One figure over requests: its mean and its spread.
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

// The quantile of samples that were counted: counts[i] lie in [i, i + 1) steps, and the upper end
// is used. At least one count is not 0.
Estimate counted_quantile(std::span<const std::uint64_t> counts, double step, double share);

// The limit that a measured value must reach for a claim to hold. It is compared with the
// pessimistic bound: the end of the interval closer to failing. So noise alone does not meet it.
struct Bar {
  enum class Side : std::uint8_t { kAtLeast, kAtMost, kWithin };  // kWithin: of ±limit

  std::string name;
  Estimate value;
  double limit = 0;
  Side side = Side::kAtLeast;

  // The pessimistic bound: the end of the interval closer to failing, or the value without an
  // interval.
  double near_end() const;
  bool met() const;

  // One line for people, without a line break.
  std::string to_string() const;
};

Json to_json(std::span<const Bar> bars);

}  // namespace outrider
