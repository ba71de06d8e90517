// The usage record of a request: what it used and cost, alike on both sides. What was not measured
// or has no price is absent, not 0.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/serving/prices/prices.h"
#include "common/serving/telemetry/log.h"

namespace outrider {

struct LedgerEntry {
  // With framing or without: the one who counts says so.
  struct Bytes {
    std::uint64_t up = 0;
    std::uint64_t down = 0;
  };
  // The time that an edge computed itself.
  struct OwnDevice {
    Duration target{0};  // part of `device`
    Duration draft{0};
  };

  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompt
  std::uint64_t completion_tokens = 0;
  std::uint64_t passes = 0;           // of the target
  std::uint64_t rows = 0;             // that they computed
  std::uint64_t rows_died = 0;        // of drafted tokens that did not become text
  Duration device{0};                 // that the target computed
  std::optional<OwnDevice> own = {};  // nothing: a server's record
  std::optional<Bytes> bytes = {};
  std::optional<double> joules = {};  // of the processors meanwhile
};

// In dollars.
struct Bill {
  std::optional<double> api = {};     // its tokens at the prices of an API
  std::optional<double> device = {};  // the target's time on a device that is rented by the hour
  std::optional<double> link = {};    // its bytes
  std::optional<double> power = {};   // of an edge: its joules, or else its watts while it computed
  std::string prices_of = {};         // the prices' date

  // For common/base/json_record.h.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("api_dollars", self.api);
    field("device_dollars", self.device);
    field("link_dollars", self.link);
    field("power_dollars", self.power);
    field("prices_of", self.prices_of);
  }
};

// Nothing where there are no prices.
std::optional<Bill> bill_of(const Prices* prices, const LedgerEntry& entry);

// The entry and its bill as fields of a line of the log.
std::vector<LogField> ledger_fields(const LedgerEntry& entry, const std::optional<Bill>& bill);

}  // namespace outrider
