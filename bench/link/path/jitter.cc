// SPDX-License-Identifier: Apache-2.0
#include "bench/link/path/jitter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace outrider {
namespace {

// Of the Pareto excess: P(excess > x) = (1 + x / scale)^-kShape.
constexpr double kShape = 3;
// The excess has mean scale / 2 and standard deviation scale * sqrt(3) / 2.
constexpr double kScaleOfDeviation = 2 / std::numbers::sqrt3;
constexpr double kMeanOfScale = 0.5;

Duration scaled(Duration duration, double by) {
  return Duration(std::llround(static_cast<double>(duration.count()) * by));
}

Duration pareto_floor(const PathSettings& settings) {
  return settings.delay - scaled(settings.jitter.deviation, kScaleOfDeviation * kMeanOfScale);
}

// The excess, in deviations, that belongs to a normal deviate: both have the same rank.
double pareto_excess(double deviate) {
  const double above = std::max(0.5 * std::erfc(deviate / std::numbers::sqrt2), 1e-12);
  return kScaleOfDeviation * (std::pow(above, -1 / kShape) - 1);
}

}  // namespace

Jitter::Jitter(const PathSettings& settings, std::uint64_t seed)
    : settings_(settings), random_(seed), deviate_(random_.normal()) {}

Duration Jitter::floor_of(const PathSettings& settings) {
  if (settings.delays != nullptr) {
    return *std::min_element(settings.delays->delays.begin(), settings.delays->delays.end());
  }
  if (settings.jitter.law == JitterSettings::Law::kPareto) return pareto_floor(settings);
  if (settings.jitter.law == JitterSettings::Law::kNormal) return settings.jitter.floor;
  return settings.delay;
}

Duration Jitter::at(Duration since_start) {
  if (settings_.delays != nullptr) {
    const DelayTrace& trace = *settings_.delays;
    const auto step = (since_start + settings_.trace_offset) / trace.step;
    return trace.delays[static_cast<std::size_t>(step) % trace.delays.size()];
  }
  const JitterSettings& jitter = settings_.jitter;
  if (jitter.law == JitterSettings::Law::kNone) return settings_.delay;
  // An Ornstein-Uhlenbeck process: normally distributed at every instant, and near to itself a
  // moment ago.
  const double passed = jitter.correlation > Duration::zero()
                            ? to_seconds(since_start - last_) / to_seconds(jitter.correlation)
                            : 1e3;
  const double kept = std::exp(-passed);
  deviate_ = kept * deviate_ + std::sqrt(1 - kept * kept) * random_.normal();
  last_ = since_start;
  if (jitter.law == JitterSettings::Law::kPareto) {
    return pareto_floor(settings_) + scaled(jitter.deviation, pareto_excess(deviate_));
  }
  return std::max(jitter.floor, settings_.delay + scaled(jitter.deviation, deviate_));
}

}  // namespace outrider
