// SPDX-License-Identifier: Apache-2.0
#include "common/serving/telemetry/metric_registry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

namespace outrider {
namespace {

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.16g", value);
  return digits.data();
}

// The format escapes these three in values of labels; a help has no quotes to escape.
std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || (c == '"' && quotes)) result += '\\';
    result += c;
  }
  return result;
}

void write_heading(const MetricHeading& heading, std::string& text) {
  text += "# HELP " + heading.name + ' ' + escaped(heading.help, false) + '\n';
  text += "# TYPE " + heading.name + ' ' + heading.type + '\n';
}

// The labels of all metrics of a family come first.
void write_line(const std::string& name, const MetricLabels& common, const MetricLabels& own,
                double value, std::string& text) {
  text += name;
  char before = '{';
  for (const MetricLabels* labels : {&common, &own}) {
    for (const auto& [key, label] : *labels) {
      text += before + key + "=\"" + escaped(label, true) + '"';
      before = ',';
    }
  }
  if (before == ',') text += '}';
  text += ' ' + number(value) + '\n';
}

}  // namespace

void Metric::raise_to(double total) {
  double before = value();
  while (before < total && !value_.compare_exchange_weak(before, total)) {
  }
}

Metric& MetricFamily::with(const MetricLabels& labels) {
  const MutexLock lock(mu_);
  return metrics_[labels];
}

void MetricFamily::write(std::string& text) const {
  const MutexLock lock(mu_);
  if (metrics_.empty()) return;
  write_heading(heading_, text);
  for (const auto& [labels, metric] : metrics_) {
    write_line(heading_.name, heading_.labels, labels, metric.value(), text);
  }
}

Histogram::Histogram(MetricHeading heading, std::vector<double> bounds)
    : heading_(std::move(heading)), bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) {
  const auto above = std::ranges::lower_bound(bounds_, value);
  const MutexLock lock(mu_);
  ++counts_[static_cast<std::size_t>(above - bounds_.begin())];
  sum_ += value;
}

void Histogram::write(std::string& text) const {
  const MutexLock lock(mu_);
  write_heading(heading_, text);
  std::string buckets;
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    so_far += counts_[i];
    const double bound = i < bounds_.size() ? bounds_[i] : HUGE_VAL;
    write_line(heading_.name + "_bucket", heading_.labels, {{"le", number(bound)}},
               static_cast<double>(so_far), buckets);
  }
  write_line(heading_.name + "_count", heading_.labels, {}, static_cast<double>(so_far), text);
  write_line(heading_.name + "_sum", heading_.labels, {}, sum_, text);
  text += buckets;
}

MetricFamily& MetricRegistry::family(MetricHeading heading) {
  const MutexLock lock(mu_);
  return families_.emplace_back(std::move(heading));
}

MetricFamily& MetricRegistry::counters(std::string name, std::string help, MetricLabels labels) {
  return family({std::move(name), std::move(help), "counter", std::move(labels)});
}

MetricFamily& MetricRegistry::gauges(std::string name, std::string help, MetricLabels labels) {
  return family({std::move(name), std::move(help), "gauge", std::move(labels)});
}

Histogram& MetricRegistry::histogram(std::string name, std::string help, MetricLabels labels,
                                     std::vector<double> bounds) {
  const MutexLock lock(mu_);
  return histograms_.emplace_back(
      MetricHeading{std::move(name), std::move(help), "histogram", std::move(labels)},
      std::move(bounds));
}

std::string MetricRegistry::text() const {
  const MutexLock lock(mu_);
  std::string text;
  for (const MetricFamily& family : families_) family.write(text);
  for (const Histogram& histogram : histograms_) histogram.write(text);
  return text;
}

}  // namespace outrider
