// Counters, gauges and histograms, and the text in which Prometheus reads them.
//
//   MetricRegistry registry;
//   MetricFamily& answers = registry.counters("answers_total", "Answers that ended, by how");
//   answers.with({{"reason", "stop"}}).add();
//   registry.text();
//
// Metrics that a registry returns by reference live as long as the registry. A name is registered
// once.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace outrider {

using MetricLabels = std::map<std::string, std::string>;

struct MetricHeading {
  std::string name;
  std::string help;
  const char* type;
  MetricLabels labels;  // of all metrics under this name
};

// A counter's total, or a gauge's value.
class Metric final {
 public:
  void add(double by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  // Copies a total that is counted elsewhere. A counter never falls: a smaller one changes nothing.
  void raise_to(double total);
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Metrics of one name, told apart by their labels.
class MetricFamily final {
 public:
  explicit MetricFamily(MetricHeading heading) : heading_(std::move(heading)) {}

  // The metric with these labels beside the family's own; the first call makes it.
  Metric& with(const MetricLabels& labels);

  void write(std::string& text) const;

 private:
  const MetricHeading heading_;
  mutable Mutex mu_;
  std::map<MetricLabels, Metric> metrics_ OUTRIDER_GUARDED_BY(mu_);
};

// How many observed values were at most each of some bounds, and their sum.
class Histogram final {
 public:
  Histogram(MetricHeading heading, std::vector<double> bounds);

  void observe(double value);
  void write(std::string& text) const;

 private:
  const MetricHeading heading_;
  const std::vector<double> bounds_;  // ascending
  mutable Mutex mu_;
  // Values up to each bound but above the one before; the last: above all bounds.
  std::vector<std::uint64_t> counts_ OUTRIDER_GUARDED_BY(mu_);
  double sum_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

class MetricRegistry final {
 public:
  MetricFamily& counters(std::string name, std::string help, MetricLabels labels = {});
  MetricFamily& gauges(std::string name, std::string help, MetricLabels labels = {});
  Histogram& histogram(std::string name, std::string help, MetricLabels labels,
                       std::vector<double> bounds);

  // All metrics in Prometheus' text format, families first; without those that have no metric yet.
  std::string text() const;

 private:
  MetricFamily& family(MetricHeading heading);

  mutable Mutex mu_;
  // Deques: what was returned by reference stays where it is.
  std::deque<MetricFamily> families_ OUTRIDER_GUARDED_BY(mu_);
  std::deque<Histogram> histograms_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
