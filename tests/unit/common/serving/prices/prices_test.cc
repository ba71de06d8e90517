// SPDX-License-Identifier: Apache-2.0
#include "common/serving/prices/prices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace outrider {
namespace {

using testing::HasSubstr;

Result<Prices> read(const std::string& toml) {
  const std::string path = testing::TempDir() + "prices.toml";
  std::ofstream(path) << toml;
  return read_prices(path);
}

TEST(PricesTest, AFileIsReadWithItsDefaults) {
  const auto prices = read(
      "date = \"2025-05\"\n[api]\ninput = 0.9\noutput = 1\n[gpu]\ndollars-per-hour = 2.5\n"
      "[link]\ndollars-per-mb = 0.01\n");
  ASSERT_TRUE(prices.ok()) << prices.status().to_string();
  EXPECT_EQ(prices->api.cached_input, 0.9) << "as input";
  EXPECT_EQ(prices->gpu_dollars_per_hour, 2.5);
  EXPECT_FALSE(prices->draft.has_value());
  EXPECT_EQ(prices->device_watts, 0);
}

TEST(PricesTest, WhatIsMissingOrNegativeIsToldByName) {
  const char* api = "[api]\ninput = 1\noutput = 1\n";
  const std::pair<std::string, const char*> cases[] = {
      {api, "lacks 'date'"},
      {"date = \"d\"", "[api] lacks 'input'"},
      {"date = \"d\"\n[api]\ninput = 1\n", "[api] lacks 'output'"},
      {"date = \"d\"\n[api]\ninput = -1\noutput = 1\n", "line 3: 'input' must be"},
      {"date = \"d\"\n[api]\ninput = \"free\"\noutput = 1\n", "must be a number"},
      {"date = \"d\"\n[api]\ninput = nan\noutput = 1\n", "must be a number"},
      {std::string("date = \"d\"\n") + api + "outptu = 2\n", "did you mean 'output'"},
      {std::string("date = \"d\"\n") + api + "[gpus]\nx = 1\n", "unknown key 'gpus'"},
      {std::string("date = \"d\"\n") + api + "[gpu]\ndollars = 1\n", "unknown key 'dollars'"},
      {"date = ", "line 1"}};
  for (const auto& [toml, why] : cases) {
    const auto prices = read(toml);
    EXPECT_EQ(prices.status().code(), StatusCode::kInvalidArgument) << toml;
    EXPECT_THAT(prices.status().message(), HasSubstr(why)) << toml;
  }
  EXPECT_EQ(read_prices("/nowhere.toml").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace outrider
