// The books of what requests took and cost: a line of the audit log for each, counters for each
// tenant. What was not measured or has no price is absent, not 0.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/prices/prices.h"
#include "common/telemetry/log.h"
#include "common/verify/scheduler_stats.h"

namespace prometheus {
class Registry;
}

namespace outrider {

// In dollars.
struct Bill {
  std::optional<double> api;     // its tokens at the prices of an API
  std::optional<double> device;  // its time on a device that is rented by the hour
  std::optional<double> link;    // its bytes
};

Bill bill_of(const Prices& prices, const SessionRecord& record);

// bill: null if there are no prices. The fields view the record and the prices, which outlive them.
std::vector<LogField> audit_fields(const SessionRecord& record, const Prices* prices);

// Counters of the tenants, in the registry.
class TenantLedger final {
 public:
  // Both outlive it. prices: null if there are none.
  TenantLedger(prometheus::Registry& registry, const std::string& model_name, const Prices* prices);
  ~TenantLedger();
  TenantLedger(const TenantLedger&) = delete;
  TenantLedger& operator=(const TenantLedger&) = delete;

  void add(const SessionRecord& record);

 private:
  struct Totals;
  const Prices* const prices_;
  const std::unique_ptr<Totals> totals_;
};

}  // namespace outrider
