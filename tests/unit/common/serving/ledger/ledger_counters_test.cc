// Sums of usage records. SPDX-License-Identifier: Apache-2.0
#include "common/serving/ledger/ledger_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(LedgerCounters, SumsStandUnderTheNamesAndLabelsAskedFor) {
  MetricRegistry registry;
  LedgerCounters counters(registry, "here_", "net_bytes_total", {{"model_name", "m"}});
  LedgerEntry entry{.passes = 90, .rows = 1500, .rows_died = 190};
  entry.device = std::chrono::seconds(36);
  entry.bytes = {3'000'000, 1'000'000};
  Bill bill{.api = {}, .device = 0.03, .link = {}, .power = 0.5, .prices_of = "2026-01-31"};
  counters.add(entry, bill, {{"tenant", "alice"}});
  counters.add(entry, std::nullopt, {{"tenant", "alice"}});
  counters.add(entry, std::nullopt);
  const std::string text = registry.text();
  for (const char* line :
       {"here_target_passes_total{model_name=\"m\",tenant=\"alice\"} 180",
        "here_rows_total{model_name=\"m\"} 1500",
        "here_rows_died_total{model_name=\"m\",tenant=\"alice\"} 380",
        "here_device_seconds_total{model_name=\"m\",tenant=\"alice\"} 72",
        "here_net_bytes_total{model_name=\"m\",direction=\"up\",tenant=\"alice\"} 6000000",
        "here_dollars_total{model_name=\"m\",of=\"power\",prices_of=\"2026-01-31\","
        "tenant=\"alice\"} 0.5"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("here_joules_total{"))) << "nobody measured any";
  EXPECT_THAT(text, Not(HasSubstr("of=\"api\"")));
}

}  // namespace
}  // namespace outrider
