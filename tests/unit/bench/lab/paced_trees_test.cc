// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/paced_trees.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/common/decoding/drafting/trees/scripted_draft.h"

namespace outrider {
namespace {

std::string round_of(const std::string& name) {
  const auto tree = std::ranges::find(paced_trees(), name, &GuestTree::name);
  if (tree == paced_trees().end()) return "no " + name;
  const std::unique_ptr<RoundPlanner> planner = tree->make(0);
  ScriptedDraft draft({{"", "a.25"}, {"a", "b.25"}, {"ab", "c.25"}, {"abc", "d.25"}});
  draft.draft(*planner);
  return draft.round();
}

// Products: .25, .0625, .016, .004.
TEST(PacedTrees, DraftUntilTheirOwnThreshold) {
  EXPECT_EQ(round_of(start_name(0.3)), "a");
  EXPECT_EQ(round_of(start_name(0.03)), "a ab abc");
  EXPECT_EQ(round_of(relax_name(0.7)), "a ab abc abcd") << "from the paper's 0.01";
  EXPECT_EQ(round_of("edgellm-navigation"), "a ab abc abcd");
}

}  // namespace
}  // namespace outrider
