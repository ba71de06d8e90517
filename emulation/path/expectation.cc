// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/expectation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "emulation/path/impaired_path.h"

namespace outrider {

std::vector<Duration> probe_times(Duration from, Duration length, Duration spacing,
                                  std::uint64_t seed) {
  SeededRandom random(seed);
  std::vector<Duration> times;
  for (Duration at = from; at < from + length;) {
    times.push_back(at);
    at += from_ms(to_ms(spacing) * (0.75 + 0.5 * random.uniform()));
  }
  return times;
}

std::vector<std::optional<double>> expected_round_trips(const LinkProfile& profile,
                                                        std::size_t bytes,
                                                        std::span<const Duration> times,
                                                        std::uint64_t seed) {
  ImpairedPath up(profile.up, 2 * seed), down(profile.down, 2 * seed + 1);
  std::vector<std::pair<Duration, std::size_t>> answered;  // when the server does, which
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Fate fate = up.send(bytes, times[i]);
    if (fate.arrives()) answered.emplace_back(fate.due, i);
  }
  std::sort(answered.begin(), answered.end());
  std::vector<std::optional<double>> round_trips(times.size());
  for (const auto& [at, i] : answered) {
    const Fate fate = down.send(bytes, at);
    if (fate.arrives()) round_trips[i] = to_ms(fate.due - times[i]);
  }
  return round_trips;
}

std::vector<double> arrived(std::span<const std::optional<double>> round_trips) {
  std::vector<double> found;
  for (const std::optional<double>& one : round_trips) {
    if (one) found.push_back(*one);
  }
  return found;
}

double expected_loss(const LossSettings& settings, Duration from, Duration to) {
  constexpr Duration kStep = std::chrono::milliseconds(1);
  LossSettings elsewhere = settings;
  elsewhere.windows.clear();
  double passed = 0;
  int steps = 0;
  for (Duration at = from; at < to; at += kStep, ++steps) passed += 1 - window_loss(settings, at);
  const double in_windows = steps > 0 ? passed / steps : 1;
  return 1 - in_windows * (1 - mean_loss(elsewhere));
}

}  // namespace outrider
