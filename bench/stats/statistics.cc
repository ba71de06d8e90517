// SPDX-License-Identifier: Apache-2.0
#include "bench/stats/statistics.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr std::size_t kResamples = 2000;
constexpr double kTail = 0.025;

std::vector<double> samples_at(std::span<const double> samples,
                               std::span<const std::size_t> indices) {
  std::vector<double> drawn;
  drawn.reserve(indices.size());
  for (const std::size_t index : indices) drawn.push_back(samples[index]);
  return drawn;
}

}  // namespace

std::optional<Estimate> bootstrap(
    std::size_t prompts,
    const std::function<std::optional<double>(std::span<const std::size_t>)>& statistic) {
  std::vector<std::size_t> indices(prompts);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  const std::optional<double> value = statistic(indices);
  if (!value) return std::nullopt;
  Estimate estimate{*value, std::nullopt};
  if (prompts < 2) return estimate;
  SplitMix draws(1);
  std::vector<double> values;
  values.reserve(kResamples);
  for (std::size_t i = 0; i < kResamples; ++i) {
    for (std::size_t& index : indices) index = draws.below(prompts);
    if (const std::optional<double> drawn = statistic(indices)) values.push_back(*drawn);
  }
  if (values.empty()) return estimate;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(
        std::round(share * static_cast<double>(values.size() - 1)))];
  };
  estimate.interval = Interval{at(kTail), at(1 - kTail)};
  return estimate;
}

double quantile(std::vector<double> samples, double share) {
  OUTRIDER_CHECK(!samples.empty());
  const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), samples.begin() + at, samples.end());
  return samples[static_cast<std::size_t>(at)];
}

std::optional<Estimate> median(std::span<const double> samples) {
  return bootstrap(samples.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     if (indices.empty()) return std::nullopt;
                     return quantile(samples_at(samples, indices), 0.5);
                   });
}

std::optional<Estimate> ratio_of_medians(std::span<const double> base,
                                         std::span<const double> samples) {
  OUTRIDER_CHECK(base.size() == samples.size());
  return bootstrap(samples.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     if (indices.empty()) return std::nullopt;
                     const double below = quantile(samples_at(base, indices), 0.5);
                     if (below <= 0) return std::nullopt;
                     return quantile(samples_at(samples, indices), 0.5) / below;
                   });
}

std::optional<Spread> spread_of(const std::vector<double>& samples) {
  if (samples.empty()) return std::nullopt;
  Spread spread;
  spread.count = samples.size();
  const auto mean_at = [&](std::span<const std::size_t> indices) -> std::optional<double> {
    double sum = 0;
    for (const std::size_t index : indices) sum += samples[index];
    return sum / static_cast<double>(indices.size());
  };
  spread.mean = *bootstrap(samples.size(), mean_at);
  double squares = 0;
  for (const double sample : samples) squares += std::pow(sample - spread.mean.value, 2);
  if (samples.size() > 1) {
    spread.deviation = std::sqrt(squares / static_cast<double>(samples.size() - 1));
  }
  spread.p50 = quantile(samples, 0.5);
  spread.p90 = quantile(samples, 0.9);
  spread.p95 = quantile(samples, 0.95);
  spread.p99 = quantile(samples, 0.99);
  return spread;
}

namespace {

struct Ranks {
  std::size_t low = 0;
  std::size_t value = 0;
  std::size_t high = 0;
};

// The number of samples below a quantile has a binomial distribution, which is nearly normal.
Ranks ranks_of(std::size_t count, double share) {
  constexpr double kDeviations = 1.96;
  const double n = static_cast<double>(count), last = n - 1;
  const double half = kDeviations * std::sqrt(n * share * (1 - share));
  const auto rank = [last](double at) {
    return static_cast<std::size_t>(std::round(std::clamp(at, 0.0, last)));
  };
  return {rank(share * last - half), rank(share * last), rank(share * last + half)};
}

}  // namespace

Estimate sample_quantile(std::vector<double> samples, double share) {
  OUTRIDER_CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  const Ranks ranks = ranks_of(samples.size(), share);
  return {samples[ranks.value], Interval{samples[ranks.low], samples[ranks.high]}};
}

Estimate counted_quantile(std::span<const std::uint64_t> counts, double step, double share) {
  const std::uint64_t total = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  OUTRIDER_CHECK(total > 0);
  const Ranks ranks = ranks_of(total, share);
  const auto at = [&](std::size_t rank) {
    std::uint64_t passed = 0;
    std::size_t i = 0;
    while (passed + counts[i] <= rank) passed += counts[i++];
    return static_cast<double>(i + 1) * step;
  };
  return {at(ranks.value), Interval{at(ranks.low), at(ranks.high)}};
}

namespace {

const char* name_of(Bar::Side side) {
  switch (side) {
    case Bar::Side::kAtLeast:
      return "at least";
    case Bar::Side::kAtMost:
      return "at most";
    case Bar::Side::kWithin:
      break;
  }
  return "within";
}

}  // namespace

double Bar::near_end() const {
  const Interval interval = value.interval.value_or(Interval{value.value, value.value});
  switch (side) {
    case Side::kAtLeast:
      return interval.low;
    case Side::kAtMost:
      return interval.high;
    case Side::kWithin:
      break;
  }
  return std::abs(interval.low) > std::abs(interval.high) ? interval.low : interval.high;
}

bool Bar::met() const {
  if (side == Side::kAtLeast) return near_end() >= limit;
  return (side == Side::kWithin ? std::abs(near_end()) : near_end()) <= limit;
}

std::string Bar::to_string() const {
  std::string text = fmt::format("{}: {:.4g}", name, value.value);
  if (value.interval) {
    text += fmt::format(" [{:.4g}, {:.4g}]", value.interval->low, value.interval->high);
  }
  return text + fmt::format(", {} {:.4g}: {}", name_of(side), limit, met() ? "met" : "NOT MET");
}

Json to_json(const Estimate& estimate) {
  Json json = {{"value", estimate.value}, {"low", Json()}, {"high", Json()}};
  if (estimate.interval) {
    json["low"] = estimate.interval->low;
    json["high"] = estimate.interval->high;
  }
  return json;
}

Json to_json(std::span<const Bar> bars) {
  Json json = Json::array();
  for (const Bar& bar : bars) {
    Json one = to_json(bar.value);
    one.update({{"name", bar.name},
                {"side", name_of(bar.side)},
                {"limit", bar.limit},
                {"met", bar.met()}});
    json.push_back(std::move(one));
  }
  return json;
}

}  // namespace outrider
