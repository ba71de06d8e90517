// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/stream_path.h"

#include <gtest/gtest.h>

#include "emulation/path/link_spec.h"

namespace outrider {
namespace {

// When messages of that size arrive that are sent so long after the start.
std::vector<std::optional<double>> arrivals(const std::string& link, std::size_t bytes,
                                            std::vector<double> sent_ms, double offset_ms = 0) {
  LinkWire wire(*parse_link(link), from_ms(offset_ms), 1);
  std::optional<LinkWireFlow> up, down;
  wire.open(up, down);
  std::vector<std::optional<double>> out;
  for (const double ms : sent_ms) {
    const auto due = up->send(bytes, wire.profile_time(TimePoint{} + from_ms(ms)));
    out.push_back(due ? std::optional(to_ms(wire.simulation_time(*due).time_since_epoch()))
                      : std::nullopt);
  }
  return out;
}

TEST(LinkWireTest, DelaysAndShapesAsTheProfileSays) {
  EXPECT_NEAR(*arrivals("ethernet+delay=20ms", 100, {5})[0], 25, 1e-6);
  const auto shaped = arrivals("ethernet+delay=20ms+rate=1mbit", 1000, {0, 0});
  EXPECT_NEAR(*shaped[0], 20 + 1052 * 8 / 1e3, 0.1);
  EXPECT_NEAR(*shaped[1], 20 + 2 * 1052 * 8 / 1e3, 0.1);
}

TEST(LinkWireTest, ABlackOutHoldsBackAndItsTimeIsTheProfiles) {
  const char* link = "ethernet+delay=10ms+blackout=100ms/500ms";
  EXPECT_GT(*arrivals(link, 100, {150})[0], 300) << "sent again after a timeout";
  EXPECT_NEAR(*arrivals(link, 100, {50})[0], 60, 1e-6);
  EXPECT_GT(*arrivals(link, 100, {50}, 100)[0], 250) << "the link begins 100 ms later";
}

TEST(LinkWireTest, NothingArrivesOnASilentLink) {
  const auto sent = arrivals("ethernet+silent=1s", 100, {0, 2000});
  EXPECT_TRUE(sent[0].has_value());
  EXPECT_FALSE(sent[1].has_value());
}

}  // namespace
}  // namespace outrider
