// The sums of usage records, as Prometheus' counters.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "common/serving/ledger/ledger_entry.h"
#include "common/serving/telemetry/metric_registry.h"

namespace outrider {

class LedgerCounters final {
 public:
  // labels: of all counters; prefix: of all names; bytes: the name that bytes go by.
  LedgerCounters(MetricRegistry& registry, const std::string& prefix, const std::string& bytes,
                 const MetricLabels& labels);
  ~LedgerCounters();
  LedgerCounters(const LedgerCounters&) = delete;
  LedgerCounters& operator=(const LedgerCounters&) = delete;

  // whose: labels of its own.
  void add(const LedgerEntry& entry, const std::optional<Bill>& bill,
           const MetricLabels& whose = {});

 private:
  struct Totals;
  const std::unique_ptr<Totals> totals_;
};

}  // namespace outrider
