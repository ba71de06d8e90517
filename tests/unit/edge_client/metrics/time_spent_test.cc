// SPDX-License-Identifier: Apache-2.0
#include "edge_client/metrics/time_spent.h"

#include <gtest/gtest.h>

#include "tests/unit/edge_client/metrics/at_ms.h"

namespace outrider {
namespace {

TEST(TimeSpent, IsDividedAmongItsCauses) {
  TimeSpent spent;
  TimeKeeper keeper(spent);
  keeper.on_start(at_ms(0));
  keeper.on_verdict({.computed = from_ms(30)}, from_ms(10), at_ms(100));
  EXPECT_EQ(spent.first, from_ms(100));
  keeper.on_round_sent(at_ms(115));
  keeper.on_verdict({.queued = from_ms(2), .computed = from_ms(20)}, from_ms(10), at_ms(150));
  EXPECT_EQ(spent.drafting, from_ms(15));
  EXPECT_EQ(spent.link, from_ms(10));
  EXPECT_EQ(spent.target, from_ms(20));
  EXPECT_EQ(spent.queued, from_ms(2));
  EXPECT_EQ(spent.other, from_ms(3));
  keeper.on_verdict({.computed = from_ms(20)}, from_ms(10), at_ms(171));  // no wait for a round
  EXPECT_EQ(spent.link, from_ms(10));
  EXPECT_EQ(spent.total(), from_ms(171));
}

}  // namespace
}  // namespace outrider
