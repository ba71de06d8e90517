// What the server tells Prometheus: vLLM's names behind our prefix where vLLM has them. The ledger
// of tenants is part of it: what was computed for whom.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/prices/prices.h"
#include "common/verify/scheduler_types.h"

namespace outrider {

// What is read when somebody asks.
struct MetricsSnapshot {
  SchedulerStats scheduler;
  std::int64_t kv_bytes_bound = 0;  // 0: none
  std::uint64_t calls_open = 0;
  std::uint64_t calls_refused = 0;  // for a peer's fault
  std::uint64_t calls_failed = 0;   // for ours
  // Keys that were refused, at each front.
  std::uint64_t grpc_keys_refused = 0;
  std::uint64_t openai_keys_refused = 0;
  std::uint64_t metrics_keys_refused = 0;
  std::uint64_t tls_handshakes_failed = 0;
  std::uint64_t grpc_errors = 0;  // that gRPC logged, those handshakes among them
  std::uint64_t connections_open = 0;
  std::uint64_t connections_refused = 0;
  std::uint64_t log_lines_lost = 0;
};

class ServerMetrics final {
 public:
  // model_name: a label of all. prices: of the ledger; outlives this. Null: nothing has a price.
  explicit ServerMetrics(const std::string& model_name, const Prices* prices = nullptr);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  // A session is over.
  void observe(const SessionRecord& record);

  // A session's next verdict came after so long.
  void observe_gap(Duration gap);

  // All of it in Prometheus' text format.
  std::string render(const MetricsSnapshot& now);

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace outrider
