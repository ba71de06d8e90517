// Where traces go and which are taken, as a flag and OpenTelemetry's environment variables say.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/address.h"
#include "common/base/status.h"
#include "common/serving/tracing/tracer.h"

namespace outrider {

struct TracingOptions {
  enum class Protocol : std::uint8_t { kGrpc, kHttp };

  Protocol protocol = Protocol::kGrpc;
  bool tls = false;  // the endpoint begins with https://; the system's authorities are trusted
  Address collector;
  std::string path;                                          // of HTTP
  std::vector<std::pair<std::string, std::string>> headers;  // of each export
  Sampler sampler;
  std::string service_name;
  std::string service_version;
};

// The value of an environment variable; empty: it is not set.
using Environment = std::function<std::string(const char* name)>;

// endpoint: of --otlp-traces-endpoint; empty: the environment's. program: its name where
// OTEL_SERVICE_NAME gives none. Nothing: there is no endpoint, or OTEL_SDK_DISABLED, and nothing is
// traced. INVALID_ARGUMENT names the flag or the variable, its value and the remedy.
Result<std::optional<TracingOptions>> tracing_options(const std::string& endpoint,
                                                      const std::string& program,
                                                      const std::string& version,
                                                      const Environment& environment);

}  // namespace outrider
