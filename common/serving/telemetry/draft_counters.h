// The counters of drafted tokens in /metrics, by vLLM's names and the same for edge and server.
//
// Thread rule: any thread. Ownership: the registry outlives them. Units: tokens, except for rounds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/serving/telemetry/metric_registry.h"

namespace outrider {

class DraftCounters final {
 public:
  // prefix: of all names; labels: of all counters.
  DraftCounters(MetricRegistry& registry, const std::string& prefix, const MetricLabels& labels);

  struct Counts {
    std::uint64_t rounds = 0;                         // passes that checked drafted tokens
    std::uint64_t tokens = 0;                         // that these checked
    std::uint64_t accepted = 0;                       // tokens that became text
    std::span<const std::uint64_t> accepted_at = {};  // [depth - 1]: passes that accepted so deep
  };
  void add(const Counts& counts);

 private:
  Metric& rounds_;
  Metric& tokens_;
  Metric& accepted_;
  MetricFamily& accepted_at_;
};

}  // namespace outrider
