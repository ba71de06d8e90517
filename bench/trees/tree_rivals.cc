// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/tree_rivals.h"

#include <algorithm>

#include "bench/lab/big_little.h"
#include "bench/lab/merged_drafts.h"
#include "bench/lab/paced_trees.h"
#include "bench/lab/shaped_trees.h"

namespace outrider {
namespace {

// Threshold of a branch's probability: keeps 95 % of the accepted tokens (docs/pruning.md).
constexpr double kPruneBelow = 0.01;

// The read rate of a mapped file larger than memory, relative to a streamed pack: measured with a
// mapped file and a pack of it (docs/flash-streaming.md).
constexpr double kMappedRate = 0.4;

// EdgeLLM, section III-D: the middle of 2.2 to 2.3 and of 1.05 to 1.09.
constexpr double kContendedCompute = 2.25, kContendedRead = 1.07;

std::vector<TreeRival> plain_and_chains() {
  std::vector<TreeRival> rivals = {
      {.name = "flash-ar", .strategy = Strategy::kAr},
      {.name = "flash-ar-serial", .strategy = Strategy::kAr, .overlapped = false},
      {.name = "flash-ar-mmap",
       .strategy = Strategy::kAr,
       .overlapped = false,
       .read_rate = kMappedRate},
      {.name = "draft", .strategy = Strategy::kAr, .loss = Loss::kDraftAlone},
      {.name = "sti",
       .strategy = Strategy::kAr,
       .read_rate = kFlashBits / kStiBits,
       .loss = Loss::kShards},
      {.name = "chain-8-serial", .gamma = 8, .overlapped = false},
      {.name = "chain-8-mmap", .gamma = 8, .overlapped = false, .read_rate = kMappedRate}};
  for (int gamma = 2; gamma <= 8; ++gamma) {
    const std::string name = "chain-" + std::to_string(gamma);
    rivals.push_back({.name = name, .gamma = gamma});
    rivals.push_back({.name = name + "-provisional", .gamma = gamma, .provisional = true});
  }
  return rivals;
}

void add_trees(std::vector<TreeRival>& rivals) {
  for (const auto& [kind, name] : enum_names<TreeKind>) {
    if (kind != TreeKind::kChain) rivals.push_back({.name = name, .tree = kind});
  }
  for (const GuestTree& tree : shaped_trees()) {
    rivals.push_back({.name = tree.name, .tree = TreeChoice(tree)});
  }
  rivals.push_back({.name = "specinfer", .tree = TreeChoice(merged_tree()), .merges_drafts = true});
  rivals.push_back({.name = "bld", .tree = TreeChoice(sure_chain()), .loss = Loss::kLenient});
}

// Parts and parameters of the papers' policies.
void add_variants(std::vector<TreeRival>& rivals) {
  for (const TreeKind kind : {TreeKind::kEdgellm, TreeKind::kLlmcad, TreeKind::kOutrider}) {
    rivals.push_back(
        {.name = std::string(name_of(kind)) + "-waiting", .tree = kind, .provisional = false});
  }
  for (const GuestTree& tree : paced_trees()) {
    // Their figure 12 is of the whole system, their parts wait.
    const bool whole = !std::string_view(tree.name).ends_with("-navigation");
    rivals.push_back({.name = tree.name, .tree = TreeChoice(tree), .provisional = whole});
  }
  for (const TreeKind kind : {TreeKind::kEdgellm, TreeKind::kLlmcad}) {
    rivals.push_back({.name = std::string(name_of(kind)) + "-contended",
                      .tree = kind,
                      .read_rate = 1 / kContendedRead,
                      .compute_rate = 1 / kContendedCompute});
  }
  rivals.push_back({.name = "outrider-with-exits", .tree = TreeKind::kOutrider, .exits = true});
  rivals.push_back({.name = "lever-single", .tree = TreeKind::kLever, .batch = 1});
  std::vector<TreeChoice> pruned = {TreeKind::kLever, TreeKind::kOutrider};
  for (const GuestTree& tree : shaped_trees()) pruned.emplace_back(tree);
  for (const TreeChoice& tree : pruned) {
    rivals.push_back(
        {.name = std::string(name_of(tree)) + "-pruned", .tree = tree, .prune_below = kPruneBelow});
    rivals.push_back({.name = std::string(name_of(tree)) + "-pruned-edges",
                      .tree = tree,
                      .prune_below = kPruneBelow,
                      .prune_rule = PruneRule::kEdges});
  }
}

}  // namespace

std::vector<TreeRival> tree_rivals() {
  std::vector<TreeRival> rivals = plain_and_chains();
  add_trees(rivals);
  add_variants(rivals);
  return rivals;
}

Result<std::vector<TreeRival>> find_tree_rivals(const std::vector<std::string>& names) {
  const std::vector<TreeRival> all = tree_rivals();
  if (names.empty()) return all;
  std::vector<TreeRival> found;
  for (const std::string& name : names) {
    const auto rival = std::ranges::find(all, name, &TreeRival::name);
    if (rival == all.end()) {
      std::string known;
      for (const TreeRival& one : all) known += (known.empty() ? "" : ", ") + one.name;
      return invalid_argument("--policies: no '" + name + "' among " + known);
    }
    found.push_back(*rival);
  }
  return found;
}

}  // namespace outrider
