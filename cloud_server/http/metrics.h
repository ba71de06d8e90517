// The server's metrics for Prometheus, with vLLM's names behind our prefix where vLLM has them.
// They include usage by tenant.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/serving/prices/prices.h"
#include "common/serving/tracing/tracer.h"

namespace outrider {

// Values that are read at each request for /metrics.
struct MetricsSnapshot {
  SchedulerStats scheduler;
  std::uint64_t calls_open = 0;
  std::uint64_t calls_refused = 0;  // for a client's fault
  std::uint64_t calls_failed = 0;   // for a fault of this server
  // Refused keys, by front end.
  std::uint64_t grpc_keys_refused = 0;
  std::uint64_t openai_keys_refused = 0;
  std::uint64_t metrics_keys_refused = 0;
  std::uint64_t tls_handshakes_failed = 0;
  std::uint64_t grpc_errors = 0;  // logged by gRPC, failed handshakes included
  std::uint64_t connections_open = 0;
  std::uint64_t connections_refused = 0;
  std::uint64_t log_lines_lost = 0;
  Tracer::Counts traces = {};
};

class ServerMetrics final {
 public:
  // model_name: a label of all. prices: for the ledger; outlives this. Null: no prices.
  explicit ServerMetrics(const std::string& model_name, const Prices* prices = nullptr);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  // Counts an ended session.
  void observe(const SessionRecord& record);

  // The time between two verdicts of a session.
  void observe_gap(Duration gap);

  // All metrics in Prometheus' text format.
  std::string render(const MetricsSnapshot& now);

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace outrider
