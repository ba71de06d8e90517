// The span of a request to OpenAI's routes, with OpenTelemetry's attributes of GenAI.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/serving/http/message.h"
#include "common/serving/openai/routes.h"
#include "common/serving/tracing/tracer.h"

namespace outrider {

// In which trace it came.
TraceHeaders trace_headers_of(const HttpRequest& request);

// model: the name that clients read.
TraceSpan request_span(const Trace& trace, const CompletionCall& call, const std::string& model,
                       TimePoint now);

}  // namespace outrider
