// Sends spans to an OpenTelemetry collector by OTLP, over gRPC or HTTP.
//
// Thread rule: start_tracing() from any thread; what it makes is used by the tracer's. Errors:
// those of tracing_options(). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/serving/tracing/tracer.h"
#include "proto/otlp/tracing_options.h"

namespace outrider {

// The bytes of an ExportTraceServiceRequest.
std::string serialize_spans(const std::vector<TraceSpan>& spans, const TracingOptions& options);

Tracer::Send otlp_sender(const TracingOptions& options);

// Starts tracing as the flag and this process's environment say. Null: nothing is traced.
Result<std::unique_ptr<Tracer>> start_tracing(const std::string& endpoint,
                                              const std::string& program,
                                              const std::string& version, Tracer::Log log);

}  // namespace outrider
