// The tree policies by name (--tree): those of LLMCad, EdgeLLM and LEVER, and our own.
//
// Thread rule: pure functions. Ownership: memory and draft_ms outlive the planner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "common/base/enum_names.h"
#include "common/decoding/drafting/own_or_guest.h"
#include "common/decoding/drafting/round_planner.h"
#include "common/decoding/drafting/trees/gain_cost_tree.h"

namespace outrider {

enum class TreeKind : std::uint8_t { kChain, kLlmcad, kEdgellm, kLever, kOutrider, kGuest };

template <>
inline constexpr auto enum_names<TreeKind> =
    std::to_array<EnumName<TreeKind>>({{TreeKind::kChain, "chain"},
                                       {TreeKind::kLlmcad, "llmcad"},
                                       {TreeKind::kEdgellm, "edgellm"},
                                       {TreeKind::kLever, "lever"},
                                       {TreeKind::kOutrider, "outrider"}});

struct GuestTree {
  const char* name;
  // size: nodes of a round at most; 0: the policy's own.
  std::function<std::unique_ptr<RoundPlanner>(std::size_t size)> make;
};

using TreeChoice = OwnOrGuest<TreeKind, GuestTree>;

struct TreeOptions {
  TreeChoice kind = TreeKind::kChain;
  std::size_t size = 0;   // nodes of a round at most; 0: the policy's own
  std::size_t batch = 4;  // most rows of a draft step
  bool exits = false;     // outrider: early exits guide what is drafted ahead

  friend bool operator==(const TreeOptions&, const TreeOptions&) = default;
};

// Whether the policy goes on drafting while a pass runs (provisional generation, as in LLMCad and
// EdgeLLM).
bool drafts_provisionally(TreeKind kind);

// Null for kChain: a chain needs no plan. memory, draft_ms: as in GainCostTree.
std::unique_ptr<RoundPlanner> make_planner(const TreeOptions& options, TreeMemory& memory,
                                           std::function<double(std::size_t)> draft_ms);

}  // namespace outrider
