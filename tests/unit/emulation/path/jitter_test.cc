// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/impaired_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using Law = JitterSettings::Law;

PathSettings with_jitter(Law law, double delay_ms, double deviation_ms, double correlation_ms) {
  PathSettings settings;
  settings.delay = from_ms(delay_ms);
  settings.jitter = {
      .law = law, .deviation = from_ms(deviation_ms), .correlation = from_ms(correlation_ms)};
  return settings;
}

std::vector<double> delays_of(const PathSettings& settings, double spacing_ms, int count) {
  Jitter jitter(settings, 7);
  std::vector<double> delays;
  for (int i = 0; i < count; ++i) delays.push_back(to_ms(jitter.at(from_ms(spacing_ms * i))));
  return delays;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double deviation_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

double quantile_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

TEST(JitterTest, WithoutALawTheDelayIsFixed) {
  for (const double delay : delays_of(with_jitter(Law::kNone, 12, 0, 0), 1, 10)) {
    EXPECT_EQ(delay, 12);
  }
}

TEST(JitterTest, NormalHasItsMeanAndDeviationWhateverTheSpacing) {
  for (const double spacing_ms : {5.0, 100.0}) {
    const auto delays = delays_of(with_jitter(Law::kNormal, 50, 10, 10), spacing_ms, 200'000);
    EXPECT_NEAR(mean_of(delays), 50, 0.3);
    EXPECT_NEAR(deviation_of(delays), 10, 0.2);
    EXPECT_NEAR(quantile_of(delays, 0.8413), 60, 0.4);
  }
}

TEST(JitterTest, ParetoHasItsMeanItsDeviationAndATail) {
  const PathSettings settings = with_jitter(Law::kPareto, 10, 7, 10);
  const auto delays = delays_of(settings, 50, 400'000);
  const double scale = 7 * 2 / std::sqrt(3), floor = 10 - scale / 2;
  EXPECT_NEAR(to_ms(Jitter::floor_of(settings)), floor, 1e-3);
  EXPECT_GE(*std::min_element(delays.begin(), delays.end()), floor);
  EXPECT_NEAR(mean_of(delays), 10, 0.1);
  EXPECT_NEAR(deviation_of(delays), 7, 0.6);  // the fourth moment does not exist
  EXPECT_NEAR(quantile_of(delays, 0.5), floor + scale * (std::cbrt(2) - 1), 0.05);
  EXPECT_NEAR(quantile_of(delays, 0.99), floor + scale * (std::cbrt(100) - 1), 1);
}

TEST(JitterTest, NoPacketIsFasterThanTheFloor) {
  PathSettings settings = with_jitter(Law::kNormal, 20, 10, 0);
  settings.jitter.floor = milliseconds(15);
  const auto delays = delays_of(settings, 1, 10'000);
  EXPECT_EQ(*std::min_element(delays.begin(), delays.end()), 15);
  EXPECT_NEAR(static_cast<double>(std::count(delays.begin(), delays.end(), 15.0)), 3085, 200);
  EXPECT_EQ(Jitter::floor_of(settings), milliseconds(15));
}

TEST(JitterTest, CorrelationKeepsADelayForAWhile) {
  const auto change_after = [](double spacing_ms) {
    const auto delays = delays_of(with_jitter(Law::kNormal, 50, 10, 20), spacing_ms, 50'000);
    double sum = 0;
    for (std::size_t i = 1; i < delays.size(); ++i) {
      sum += (delays[i] - delays[i - 1]) * (delays[i] - delays[i - 1]);
    }
    return std::sqrt(sum / static_cast<double>(delays.size()));
  };
  EXPECT_NEAR(change_after(0.2), 10 * std::sqrt(2 * (1 - std::exp(-0.01))), 0.05);
  EXPECT_NEAR(change_after(20), 10 * std::sqrt(2 * (1 - std::exp(-1))), 0.3);
  EXPECT_NEAR(change_after(400), 10 * std::sqrt(2), 0.3);
}

TEST(JitterTest, ATraceGivesEachStepItsDelayFromTheOffsetOn) {
  PathSettings settings;
  settings.delays = std::make_shared<const DelayTrace>(
      DelayTrace{{milliseconds(12), milliseconds(40), milliseconds(9)}, milliseconds(10)});
  Jitter jitter(settings, 0);
  EXPECT_EQ(jitter.at(milliseconds(9)), milliseconds(12));
  EXPECT_EQ(jitter.at(milliseconds(10)), milliseconds(40));
  EXPECT_EQ(jitter.at(milliseconds(59)), milliseconds(9));
  EXPECT_EQ(jitter.at(milliseconds(60)), milliseconds(12));
  EXPECT_EQ(Jitter::floor_of(settings), milliseconds(9));
  settings.trace_offset = milliseconds(20);
  EXPECT_EQ(Jitter(settings, 0).at(milliseconds(0)), milliseconds(9));
}

TEST(JitterTest, TheSeedDecides) {
  const PathSettings settings = with_jitter(Law::kNormal, 50, 10, 0);
  Jitter one(settings, 1), same(settings, 1), other(settings, 2);
  const Duration first = one.at(milliseconds(1));
  EXPECT_EQ(same.at(milliseconds(1)), first);
  EXPECT_NE(other.at(milliseconds(1)), first);
}

}  // namespace
}  // namespace outrider
