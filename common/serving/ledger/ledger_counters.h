// The sums of usage records, as Prometheus' counters.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/serving/ledger/ledger_entry.h"

namespace prometheus {
class Registry;
}

namespace outrider {

class LedgerCounters final {
 public:
  using Labels = std::map<std::string, std::string>;

  // labels: of all counters; prefix: of all names; bytes: the name that bytes go by.
  LedgerCounters(prometheus::Registry& registry, const std::string& prefix,
                 const std::string& bytes, const Labels& labels);
  ~LedgerCounters();
  LedgerCounters(const LedgerCounters&) = delete;
  LedgerCounters& operator=(const LedgerCounters&) = delete;

  // whose: labels of its own.
  void add(const LedgerEntry& entry, const std::optional<Bill>& bill, const Labels& whose = {});

 private:
  struct Totals;
  const std::unique_ptr<Totals> totals_;
};

}  // namespace outrider
