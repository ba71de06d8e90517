// The counters of a program's tracer in /metrics, by the same names for edge and server.
//
// Thread rule: any thread. Ownership: the registry outlives them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/serving/telemetry/metric_registry.h"
#include "common/serving/tracing/tracer.h"

namespace outrider {

class TraceCounters final {
 public:
  // prefix: of all names; labels: of all counters.
  TraceCounters(MetricRegistry& registry, const std::string& prefix, const MetricLabels& labels);

  // Copies the tracer's totals.
  void follow(const Tracer::Counts& counts);

 private:
  Metric& exported_;
  Metric& dropped_;
  Metric& malformed_;
};

}  // namespace outrider
