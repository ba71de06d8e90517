// SPDX-License-Identifier: Apache-2.0
#include "common/drafting/trees/hidden_drafting.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

constexpr double kRoomMs = 100;  // of reading, while the draft works

// Rounds that were drafted for one time and the other in turn.
double hidden_after(double one_ms, double other_ms) {
  HiddenDrafting hidden;
  for (int i = 0; i < 200; ++i) {
    const double drafted = i % 2 == 0 ? one_ms : other_ms;
    hidden.observe(drafted, -std::min(drafted, kRoomMs));
  }
  return hidden.ms();
}

TEST(HiddenDrafting, WithinTheRoomAllThatIsOftenDraftedIsHidden) {
  EXPECT_NEAR(hidden_after(20, 60), 60, 5);
  EXPECT_NEAR(hidden_after(40, 80), 80, 5);
}

TEST(HiddenDrafting, BeyondItMoreDraftingHidesNothing) {
  EXPECT_EQ(hidden_after(200, 300), 0);
}

TEST(HiddenDrafting, NothingIsKnownWhereRoundsNeverDiffer) {
  EXPECT_EQ(HiddenDrafting().ms(), 0);
  EXPECT_EQ(hidden_after(60, 60), 0);
}

}  // namespace
}  // namespace outrider
