// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/round_worth.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

Timings known() {
  Timings timings;
  timings.draft_step.add(1, from_ms(100));
  timings.on_request_served(from_ms(100));
  return timings;
}

// Two steps of 100 ms and a round trip of 100 ms are what a whole round spares a verifier.
TEST(ShareOfHit, CountsTheStepsAndTheRoundTripThatAreSpared) {
  const auto share = [](const CacheLookup& found) { return share_of_hit(found, known(), 2); };
  EXPECT_DOUBLE_EQ(share({}), 0);
  EXPECT_DOUBLE_EQ(share({.in_step = true}), 0.5 / 3);
  EXPECT_DOUBLE_EQ(share({.drafted = 1}), 1.0 / 3);
  EXPECT_DOUBLE_EQ(share({.drafted = 5}), 2.0 / 3) << "nobody waits for more than two";
  EXPECT_DOUBLE_EQ(share({.drafted = 5, .sent_id = 9}), 1);
}

TEST(ShareOfHit, IsWholeWhereNobodyWaits) {
  EXPECT_DOUBLE_EQ(share_of_hit({.drafted = 1}, known(), 0), 1);
  EXPECT_DOUBLE_EQ(share_of_hit({}, known(), 0), 0);
}

}  // namespace
}  // namespace outrider
