// The rivals that decode from an emulated flash: the baselines of LLMCad, EdgeLLM and LEVER as far
// as the papers define them, their policies, their rivals, and ours.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/trees/flash_paces.h"
#include "common/base/status.h"
#include "common/decoding/drafting/trees/make_planner.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

// Whether a rival writes another text than the target's, and how it comes to that. Its text is
// scored, and never called equal.
enum class Loss : std::uint8_t {
  kNone,
  kDraftAlone,  // the draft writes the answer, and no target reads it
  kLenient,  // the target lets drafted tokens stand that it finds likely (bench/lab/big_little.h)
  kShards,   // the target has fewer bits (bench/lab/shards.h)
};

//   flash-ar            one token a pass, reading and computing overlapped (EdgeLLM's SPL)
//   flash-ar-serial     the same, but a layer is read when the one before has computed (its Std)
//   flash-ar-mmap       serial, from a mapped file: layers are read page by page on first access,
//                       at the rate that this machine's disk then has (read_rate)
//   chain-N             N drafted tokens a pass (LEVER's Chain-SD: N = 8)
//   chain-N-provisional drafting on while a pass waits for its reads
//   chain-8-serial, chain-8-mmap   as flash-ar's
//   llmcad, edgellm, lever, fixed, top-n, outrider   trees (docs/trees.md)
//   specinfer           two drafts' chains, merged (bench/lab/merged_drafts.h)
//   edgellm-waiting, llmcad-waiting, outrider-waiting   without provisional generation
//   edgellm-navigation, llmcad-navigation   and with a threshold that does not adapt
//   edgellm-start-A, edgellm-relax-F   other parameters (bench/lab/paced_trees.h)
//   edgellm-contended, llmcad-contended   the draft works beside the target without regard for it:
//   passes then
//                       compute 2.25 and read 1.07 times as long (EdgeLLM, figure 13)
//   outrider-with-exits   with the target's early exits as evidence, and the time of their heads
//   TREE-pruned         lever, fixed, top-n and outrider with pruning (docs/pruning.md)
//   TREE-pruned-edges   with LEVER's own rule: an edge by its score alone
//   lever-single        as lever, but the draft runs one row a step
//   draft, bld, sti     lossy: the draft alone, the Big Little Decoder, a sharded target
struct TreeRival {
  std::string name;
  Strategy strategy = Strategy::kSd;
  TreeChoice tree = TreeKind::kChain;
  int gamma = 4;
  std::optional<bool> provisional = {};
  bool overlapped = true;   // reading with computing
  double read_rate = 1;     // relative to the flash's rate: less for a slow way of reading
  double compute_rate = 1;  // relative to the target's alone
  double prune_below = 0;   // a branch's least probability in the middle of a pass; 0: no pruning
  PruneRule prune_rule = PruneRule::kBranches;
  double prune_temperature = 1;  // LEVER's tau_E
  bool exits = false;     // use the target's exits as evidence, with their heads' time
  std::size_t batch = 4;  // most rows of a draft step
  bool merges_drafts = false;
  Loss loss = Loss::kNone;
  std::optional<NamedFlashPace> pace = {};  // nothing: the run's
};

// The mean of the bits of an STI shard, of the 8 that the target's weights have on the flash: our
// choice, half of the reading.
inline constexpr double kStiBits = 4;
inline constexpr double kFlashBits = 8;

// All of them, chains of 2 to 8 tokens.
std::vector<TreeRival> tree_rivals();

// The rivals of these names. INVALID_ARGUMENT lists the names.
Result<std::vector<TreeRival>> find_tree_rivals(const std::vector<std::string>& names);

}  // namespace outrider
