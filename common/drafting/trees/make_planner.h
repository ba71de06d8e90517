// The tree policies by name (--tree).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/enum_names.h"
#include "common/drafting/round_planner.h"
#include "common/drafting/trees/gain_cost_tree.h"

namespace outrider {

enum class TreeKind : std::uint8_t { kChain, kLlmcad, kEdgellm, kLever, kFixed, kTopN, kOutrider };

template <>
inline constexpr auto enum_names<TreeKind> =
    std::to_array<EnumName<TreeKind>>({{TreeKind::kChain, "chain"},
                                       {TreeKind::kLlmcad, "llmcad"},
                                       {TreeKind::kEdgellm, "edgellm"},
                                       {TreeKind::kLever, "lever"},
                                       {TreeKind::kFixed, "fixed"},
                                       {TreeKind::kTopN, "top-n"},
                                       {TreeKind::kOutrider, "outrider"}});

struct TreeOptions {
  TreeKind kind = TreeKind::kChain;
  std::size_t size = 0;  // nodes of a round at most; 0: the policy's own
  std::vector<int> widths = {1, 1, 3, 1, 1, 1, 1, 1};  // fixed: SpecInfer's expansion
  std::size_t batch = 4;                               // rows that a draft step may run
  bool exits = false;  // outrider: a target's early exits are evidence for what is drafted ahead

  friend bool operator==(const TreeOptions&, const TreeOptions&) = default;
};

// Whether the policy's own paper drafts on while a pass is under way (LLMCad and EdgeLLM:
// provisional generation); ours does too.
bool drafts_provisionally(TreeKind kind);

// Null for kChain: a chain needs no plan. memory, draft_ms: as GainCostTree's.
std::unique_ptr<RoundPlanner> make_planner(const TreeOptions& options, TreeMemory& memory,
                                           std::function<double(std::size_t)> draft_ms);

}  // namespace outrider
