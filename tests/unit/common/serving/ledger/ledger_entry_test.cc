// The use and the cost of requests. SPDX-License-Identifier: Apache-2.0
#include "common/serving/ledger/ledger_entry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// 1000 tokens of prompt, 400 of them cached; 200 of answer by 90 passes in 36 s.
LedgerEntry plain() {
  return {.prompt_tokens = 1000,
          .cached_tokens = 400,
          .completion_tokens = 200,
          .passes = 90,
          .rows = 1500,
          .rows_died = 190,
          .device = std::chrono::seconds(36),
          .own = {},
          .bytes = {},
          .joules = {}};
}

LedgerEntry measured() {
  LedgerEntry entry = plain();
  entry.bytes = {3'000'000, 1'000'000};
  entry.joules = 12.5;
  return entry;
}

Prices prices() {
  return {.date = "2026-01-31",
          .api = {.input = 2, .output = 10, .cached_input = 0.5},
          .gpu_dollars_per_hour = 3,
          .link_dollars_per_mb = 0.01,
          .device_watts = 10,
          .dollars_per_kwh = 0.36};
}

std::string line(const LedgerEntry& entry, const Prices* prices) {
  return internal::format_log_line(
      LogFormat::kJson, "ended",
      std::span<const LogField>(ledger_fields(entry, bill_of(prices, entry))));
}

TEST(LedgerEntry, ABillHasTokensTimeAndBytesAtTheirPrices) {
  const Prices all = prices();
  const Bill bill = *bill_of(&all, measured());
  EXPECT_NEAR(*bill.api, (600 * 2 + 400 * 0.5 + 200 * 10) / 1e6, 1e-12);
  EXPECT_NEAR(*bill.device, 0.03, 1e-12);
  EXPECT_NEAR(*bill.link, 0.04, 1e-12);
  EXPECT_FALSE(bill.power) << "of edges alone";
  EXPECT_EQ(bill.prices_of, "2026-01-31");
}

TEST(LedgerEntry, WhatHasNoPriceOrWasNotMeasuredIsNotOnTheBill) {
  Prices some = prices();
  some.gpu_dollars_per_hour.reset();
  EXPECT_FALSE(bill_of(&some, measured())->device);
  EXPECT_FALSE(bill_of(&some, plain())->link) << "nobody counted its bytes";
  EXPECT_FALSE(bill_of(nullptr, measured()));
}

TEST(LedgerEntry, AnEdgeRentsNothingForItsOwnPassesAndPaysItsPower) {
  const Prices all = prices();
  LedgerEntry entry = plain();
  entry.own = {.target = std::chrono::seconds(12), .draft = std::chrono::seconds(8)};
  EXPECT_NEAR(*bill_of(&all, entry)->device, 0.02, 1e-12) << "24 of 36 s were the server's";
  EXPECT_NEAR(*bill_of(&all, entry)->power, 0.36 * 10 * 20 / 3.6e6, 1e-12) << "by its watts";
  entry.joules = 500;
  EXPECT_NEAR(*bill_of(&all, entry)->power, 0.36 * 500 / 3.6e6, 1e-12) << "as measured";
  Prices free_power = all;
  free_power.dollars_per_kwh = 0;
  EXPECT_FALSE(bill_of(&free_power, entry)->power);
}

TEST(LedgerEntry, ALineTellsWhatWasMeasuredAndNoMore) {
  const Prices all = prices();
  EXPECT_THAT(
      line(measured(), &all),
      AllOf(HasSubstr("\"passes\":90"), HasSubstr("\"rows\":1500"), HasSubstr("\"rows_died\":190"),
            HasSubstr("\"device_s\":36"), HasSubstr("\"bytes_up\":3000000"),
            HasSubstr("\"bytes_down\":1000000"), HasSubstr("\"joules\":12.5"),
            HasSubstr("\"device_dollars\":0.03"), HasSubstr("\"prices_of\":\"2026-01-31\"")));
  EXPECT_THAT(line(plain(), nullptr), AllOf(Not(HasSubstr("bytes")), Not(HasSubstr("joules")),
                                            Not(HasSubstr("draft_s")), Not(HasSubstr("dollars"))));
}

}  // namespace
}  // namespace outrider
