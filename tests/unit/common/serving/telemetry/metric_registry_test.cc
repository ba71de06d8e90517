// The text in which Prometheus reads metrics. SPDX-License-Identifier: Apache-2.0
#include "common/serving/telemetry/metric_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace outrider {
namespace {

TEST(MetricRegistry, CountersAndGaugesStandUnderTheirHeadings) {
  MetricRegistry registry;
  MetricFamily& ended = registry.counters("ended_total", "Ended, by how", {{"model", "m"}});
  ended.with({{"why", "stop"}, {"at", "edge"}}).add();
  ended.with({{"why", "stop"}, {"at", "edge"}}).add(2.5);
  ended.with({{"why", "length"}, {"at", "edge"}}).add(0);
  registry.gauges("open", "Open ones").with({}).set(-3);
  EXPECT_EQ(registry.text(),
            "# HELP ended_total Ended, by how\n"
            "# TYPE ended_total counter\n"
            "ended_total{model=\"m\",at=\"edge\",why=\"length\"} 0\n"
            "ended_total{model=\"m\",at=\"edge\",why=\"stop\"} 3.5\n"
            "# HELP open Open ones\n"
            "# TYPE open gauge\n"
            "open -3\n");
}

TEST(MetricRegistry, AHistogramCountsWhatIsAtMostEachBound) {
  MetricRegistry registry;
  Histogram& seconds = registry.histogram("seconds", "Time", {{"model", "m"}}, {0.1, 1});
  for (const double value : {0.05, 0.1, 0.5, 7.0}) seconds.observe(value);
  EXPECT_EQ(registry.text(),
            "# HELP seconds Time\n"
            "# TYPE seconds histogram\n"
            "seconds_count{model=\"m\"} 4\n"
            "seconds_sum{model=\"m\"} 7.65\n"
            "seconds_bucket{model=\"m\",le=\"0.1\"} 2\n"
            "seconds_bucket{model=\"m\",le=\"1\"} 3\n"
            "seconds_bucket{model=\"m\",le=\"+Inf\"} 4\n");
}

TEST(MetricRegistry, NamesOfTenantsCannotBreakALine) {
  MetricRegistry registry;
  registry.counters("a_total", "Lines\nand \\ and \"").with({{"tenant", "a\"b\\c\nd"}}).add();
  EXPECT_EQ(registry.text(),
            "# HELP a_total Lines\\nand \\\\ and \"\n"
            "# TYPE a_total counter\n"
            "a_total{tenant=\"a\\\"b\\\\c\\nd\"} 1\n");
}

TEST(MetricRegistry, SaysNothingOfAFamilyWithoutMetrics) {
  MetricRegistry registry;
  registry.counters("none_total", "Nothing yet");
  EXPECT_EQ(registry.text(), "");
}

TEST(MetricRegistry, WritesNumbersThatAreNone) {
  MetricRegistry registry;
  MetricFamily& odd = registry.gauges("odd", "Odd");
  odd.with({{"n", "1"}}).set(std::nan(""));
  odd.with({{"n", "2"}}).set(-HUGE_VAL);
  EXPECT_THAT(registry.text(), testing::EndsWith("odd{n=\"1\"} NaN\nodd{n=\"2\"} -Inf\n"));
}

TEST(MetricRegistry, ATotalCountedElsewhereNeverFalls) {
  MetricRegistry registry;
  Metric& lines = registry.counters("lines_total", "Lines").with({});
  lines.raise_to(5);
  lines.raise_to(3);
  EXPECT_EQ(lines.value(), 5);
}

TEST(MetricRegistry, ThreadsLoseNoCount) {
  MetricRegistry registry;
  MetricFamily& counts = registry.counters("counts_total", "Counts");
  Histogram& values = registry.histogram("values", "Values", {}, {0.5});
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) {
          counts.with({{"i", std::to_string(i % 10)}}).add();
          values.observe(1);
        }
      });
    }
    for (int i = 0; i < 20; ++i) EXPECT_THAT(registry.text(), testing::HasSubstr("values_count"));
  }
  EXPECT_EQ(counts.with({{"i", "7"}}).value(), 400);
  EXPECT_THAT(registry.text(), testing::HasSubstr("values_bucket{le=\"+Inf\"} 4000\n"));
}

}  // namespace
}  // namespace outrider
