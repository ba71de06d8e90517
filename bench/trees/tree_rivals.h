// Who decodes from flash, and what each may do: the baselines of LLMCad, EdgeLLM and LEVER as far
// as the papers define them, their policies, and ours.
//
//   flash-ar            one token a pass, reading and computing overlapped
//   flash-ar-serial     the same, a layer read when the one before has computed
//   flash-ar-mmap       serial, from a mapped file: layers are read as its pages are touched, at
//   the
//                       rate that this machine's disk gives so (below)
//   chain-N             N drafted tokens a pass (LEVER's Chain-SD: N = 8)
//   chain-N-provisional drafting on while a pass waits for its reads
//   chain-8-serial, chain-8-mmap   as flash-ar's
//   llmcad, edgellm, lever, fixed, top-n, outrider   trees (docs/trees.md)
//   edgellm-waiting, outrider-waiting   without provisional generation
//   outrider-with-exits   with the target's early exits as evidence, and the time of their heads
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
  bool overlapped = true;           // reading with computing
  double read_rate = 1;             // of the flash's: less where the way of reading is a slow one
  double prune_below = 0;           // of a branch's chance, in the middle of a pass
  bool exits = false;               // of the target are asked for: evidence, and their heads' time
  std::optional<int> fan_out = {};  // mirror
};

// All of them, chains of 2 to 8 tokens.
std::vector<TreeRival> tree_rivals();

// With a server: ar, chain-1 to chain-8 and each tree, which wait for their verdict; mirror, which
// does not, and mirror-chain, without siblings in what it sends.
std::vector<TreeRival> network_rivals();

// Of tree_rivals(), those of these names. INVALID_ARGUMENT lists those there are.
Result<std::vector<TreeRival>> find_tree_rivals(const std::vector<std::string>& names);

}  // namespace outrider
