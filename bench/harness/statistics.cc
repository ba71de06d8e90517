// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

namespace outrider {
namespace {

constexpr std::size_t kResamples = 2000;
constexpr double kTail = 0.025;

// SplitMix64: the same draws on every platform.
class Draws final {
 public:
  std::size_t below(std::size_t bound) {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return static_cast<std::size_t>((z ^ (z >> 31)) % bound);
  }

 private:
  std::uint64_t state_ = 1;
};

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
  Draws draws;
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

std::optional<Estimate> estimate(std::span<const AnswerFigures> answers,
                                 std::optional<double> (AnswerFigures::*figure)() const) {
  return bootstrap(answers.size(), [&](std::span<const std::size_t> indices) {
    return (sum_at(answers, indices).*figure)();
  });
}

std::optional<Estimate> speedup(std::span<const AnswerFigures> base,
                                std::span<const AnswerFigures> answers) {
  OUTRIDER_CHECK(base.size() == answers.size());
  return bootstrap(answers.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     const std::optional<double> slow = sum_at(base, indices).tpot_ms();
                     const std::optional<double> fast = sum_at(answers, indices).tpot_ms();
                     if (!slow || !fast || *fast <= 0) return std::nullopt;
                     return *slow / *fast;
                   });
}

std::optional<Estimate> difference(std::span<const AnswerFigures> base,
                                   std::span<const AnswerFigures> answers,
                                   std::optional<double> (AnswerFigures::*figure)() const) {
  OUTRIDER_CHECK(base.size() == answers.size());
  return bootstrap(answers.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     const std::optional<double> less = (sum_at(base, indices).*figure)();
                     const std::optional<double> more = (sum_at(answers, indices).*figure)();
                     if (!less || !more) return std::nullopt;
                     return *more - *less;
                   });
}

AnswerFigures sum_at(std::span<const AnswerFigures> answers, std::span<const std::size_t> indices) {
  AnswerFigures sum;
  for (const std::size_t index : indices) sum += answers[index];
  return sum;
}

AnswerFigures sum_of(std::span<const AnswerFigures> answers) {
  AnswerFigures sum;
  for (const AnswerFigures& figures : answers) sum += figures;
  return sum;
}

}  // namespace outrider
