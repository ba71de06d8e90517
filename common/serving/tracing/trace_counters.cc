// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tracing/trace_counters.h"

namespace outrider {

TraceCounters::TraceCounters(MetricRegistry& registry, const std::string& prefix,
                             const MetricLabels& labels)
    : exported_(registry
                    .counters(prefix + "trace_spans_exported_total",
                              "Spans that the collector of traces has taken", labels)
                    .with({})),
      dropped_(registry
                   .counters(prefix + "trace_spans_dropped_total",
                             "Spans that found no room, or that the collector did not take", labels)
                   .with({})),
      malformed_(registry
                     .counters(prefix + "traceparents_malformed_total",
                               "Requests whose traceparent was ignored", labels)
                     .with({})) {}

void TraceCounters::follow(const Tracer::Counts& counts) {
  exported_.raise_to(static_cast<double>(counts.exported));
  dropped_.raise_to(static_cast<double>(counts.dropped));
  malformed_.raise_to(static_cast<double>(counts.malformed));
}

}  // namespace outrider
