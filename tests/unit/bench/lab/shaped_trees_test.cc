// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/shaped_trees.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/decoding/drafting/trees/make_planner.h"
#include "tests/unit/common/decoding/drafting/trees/scripted_draft.h"

namespace outrider {
namespace {

const ScriptedDraft::Script kShapes = {
    {"", "a.6 b.35"}, {"a", "c.5 d.2"}, {"b", "e.9 h.1"}, {"ac", "f.9"}, {"be", "g.9"}};

TEST(FixedWidths, HaveSoManyChildrenAtEachDepth) {
  FixedWidths planner({2, 1});
  ScriptedDraft draft(kShapes, 4);
  draft.draft(planner);
  EXPECT_EQ(draft.round(), "a b ac be");
  EXPECT_EQ(draft.rows(), "- ab") << "a level is one step of the draft";
}

TEST(FixedWidths, EndWhereTheVerifierIsFull) {
  FixedWidths planner({2, 2, 2});
  ScriptedDraft draft(kShapes, 4);
  PlanLimits limits = ScriptedDraft::kLimits;
  limits.max_nodes = 3;
  draft.draft(planner, limits);
  EXPECT_EQ(draft.round(), "a b ac");
}

TEST(FixedWidths, AreNoMoreThanASizeThatIsAskedFor) {
  TreeMemory memory;
  memory.passes.observe(1, 1, 100);
  const std::vector<int> widths = {2, 2, 2};
  const std::vector<GuestTree> guests = shaped_trees(widths);
  for (const TreeChoice& kind :
       {TreeChoice(guests[0]), TreeChoice(TreeKind::kLever), TreeChoice(TreeKind::kOutrider)}) {
    const auto planner =
        make_planner({.kind = kind, .size = 2}, memory, [](std::size_t) { return 1.0; });
    ScriptedDraft draft(kShapes, 4);
    draft.draft(*planner);
    const std::string round = draft.round();
    EXPECT_EQ(std::ranges::count(round, ' '), 1) << name_of(kind) << ": " << round;
  }
}

// Products: a .6, b .35, be .315, ac .3, beg .2835.
TEST(TopNodes, TakeTheLargestProducts) {
  TopNodes planner(4);
  ScriptedDraft draft(kShapes, 4);
  draft.draft(planner);
  EXPECT_EQ(draft.round(), "a b be ac");
}

TEST(TopNodes, OfSizeZeroAreNone) {
  TopNodes planner(0);
  ScriptedDraft draft(kShapes);
  draft.draft(planner);
  EXPECT_EQ(draft.round(), "");
}

TEST(MakePlanner, EveryKindButAChainHasOne) {
  TreeMemory memory;
  memory.passes.observe(1, 1, 100);
  std::vector<TreeChoice> kinds;
  for (const auto& [kind, name] : enum_names<TreeKind>) kinds.emplace_back(kind);
  for (const GuestTree& guest : shaped_trees()) kinds.emplace_back(guest);
  EXPECT_EQ(kinds.size(), 7u);
  for (const TreeChoice& kind : kinds) {
    const char* const name = name_of(kind);
    const auto planner =
        make_planner({.kind = kind, .size = 3}, memory, [](std::size_t) { return 1.0; });
    EXPECT_EQ(planner == nullptr, kind == TreeKind::kChain) << name;
    if (planner == nullptr) continue;
    ScriptedDraft draft(kShapes, 4);
    draft.draft(*planner);
    EXPECT_FALSE(draft.round().empty()) << name;
  }
}

}  // namespace
}  // namespace outrider
