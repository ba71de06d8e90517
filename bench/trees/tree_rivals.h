// Who decodes from flash, and what each may do: the baselines of LLMCad, EdgeLLM and LEVER as far
// as the papers define them, their policies, and ours.
//
//   flash-ar            one token a pass, reading and computing overlapped
//   flash-ar-serial     the same, a layer read when the one before has computed
//   chain-N             N drafted tokens a pass (LEVER's Chain-SD: N = 8)
//   chain-N-provisional drafting on while a pass waits for its reads
//   llmcad, edgellm, lever, fixed, top-n, outrider   trees (docs/trees.md)
//   edgellm-waiting     edgellm without provisional generation
//   TREE-pruned         lever, fixed, top-n and outrider with pruning (docs/pruning.md)
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/drafting/trees/make_planner.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

struct TreeRival {
  std::string name;
  Strategy strategy = Strategy::kSd;
  TreeKind tree = TreeKind::kChain;
  int gamma = 4;
  std::optional<bool> provisional = {};
  bool overlapped = true;  // reading with computing
  double prune_below = 0;  // of a branch's chance, in the middle of a pass
};

// All of them, chains of 2 to 8 tokens.
std::vector<TreeRival> tree_rivals();

// Of these names. INVALID_ARGUMENT lists those there are.
Result<std::vector<TreeRival>> find_tree_rivals(const std::vector<std::string>& names);

}  // namespace outrider
