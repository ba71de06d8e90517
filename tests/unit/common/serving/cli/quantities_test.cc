// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/quantities.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace outrider {
namespace {

using namespace std::chrono_literals;

TEST(Durations, AreNumbersOfTheirUnit) {
  CLI::App app;
  Duration wait = 2500ms;
  Duration trip = 0ms;
  CLI::Option* const option =
      add_duration(app, "--wait", wait, 1s, CLI::Range(0.01, 60.0), "How long");
  add_duration(app, "--trip", trip, 1ms, CLI::Range(0.0, 60.0), "How long");
  EXPECT_EQ(option->get_default_str(), "2.5");
  app.parse("--wait 0.25 --trip 1.5");
  EXPECT_EQ(wait, 250ms);
  EXPECT_EQ(trip, 1500us);
  EXPECT_THROW(app.parse("--wait 0"), CLI::ParseError);
  EXPECT_THROW(app.parse("--wait soon"), CLI::ParseError);
}

TEST(Durations, StayAsTheyAreUnlessGiven) {
  CLI::App app;
  Duration wait = 5s;
  add_duration(app, "--wait", wait, 1s, CLI::Range(0.0, 60.0), "How long");
  app.parse("");
  EXPECT_EQ(wait, 5s);
}

TEST(Megabytes, AreBytes) {
  CLI::App app;
  std::uint64_t bytes = 0;
  CLI::Option* const option =
      add_megabytes(app, "--limit", bytes, CLI::Range(0.0, 1e9), "How much");
  EXPECT_EQ(option->get_default_str(), "0");
  app.parse("--limit 1.5");
  EXPECT_EQ(bytes, 1'500'000u);
}

TEST(Ports, AreBoundedAndMayBeNone) {
  CLI::App app;
  std::uint16_t port = 80;
  std::optional<std::uint16_t> pages;
  add_port(app, "--port", port, "Where");
  add_port(app, "--pages", pages, "Where");
  app.parse("--port 65535");
  EXPECT_EQ(port, 65535);
  EXPECT_EQ(pages, std::nullopt);
  app.parse("--pages 0");
  EXPECT_EQ(pages, 0);
  EXPECT_THROW(app.parse("--port 65536"), CLI::ParseError);
  EXPECT_THROW(app.parse("--port -1"), CLI::ParseError);
}

}  // namespace
}  // namespace outrider
