// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/tree_rivals.h"

#include <algorithm>

namespace outrider {
namespace {

// Of a branch's chance: keeps 95 % of the accepted tokens (docs/pruning.md).
constexpr double kPruneBelow = 0.01;

// Of the rate of a streamed pack, what a mapped file larger than memory gives: measured by
// bench/offline/mapped.py (docs/flash-streaming.md).
constexpr double kMappedRate = 0.4;

}  // namespace

std::vector<TreeRival> tree_rivals() {
  std::vector<TreeRival> rivals = {
      {.name = "flash-ar", .strategy = Strategy::kAr},
      {.name = "flash-ar-serial", .strategy = Strategy::kAr, .overlapped = false},
      {.name = "flash-ar-mmap",
       .strategy = Strategy::kAr,
       .overlapped = false,
       .read_rate = kMappedRate},
      {.name = "chain-8-serial", .gamma = 8, .overlapped = false},
      {.name = "chain-8-mmap", .gamma = 8, .overlapped = false, .read_rate = kMappedRate}};
  for (int gamma = 2; gamma <= 8; ++gamma) {
    const std::string name = "chain-" + std::to_string(gamma);
    rivals.push_back({.name = name, .gamma = gamma});
    rivals.push_back({.name = name + "-provisional", .gamma = gamma, .provisional = true});
  }
  for (const auto& [kind, name] : enum_names<TreeKind>) {
    if (kind != TreeKind::kChain) rivals.push_back({.name = name, .tree = kind});
  }
  rivals.push_back({.name = "edgellm-waiting", .tree = TreeKind::kEdgellm, .provisional = false});
  rivals.push_back({.name = "outrider-waiting", .tree = TreeKind::kOutrider, .provisional = false});
  rivals.push_back({.name = "outrider-with-exits", .tree = TreeKind::kOutrider, .exits = true});
  for (const TreeKind kind :
       {TreeKind::kLever, TreeKind::kFixed, TreeKind::kTopN, TreeKind::kOutrider}) {
    rivals.push_back(
        {.name = std::string(name_of(kind)) + "-pruned", .tree = kind, .prune_below = kPruneBelow});
  }
  return rivals;
}

std::vector<TreeRival> network_rivals() {
  std::vector<TreeRival> rivals = {{.name = "ar", .strategy = Strategy::kAr}};
  for (int gamma = 1; gamma <= 8; ++gamma) {
    rivals.push_back({.name = "chain-" + std::to_string(gamma), .gamma = gamma});
  }
  for (const auto& [kind, name] : enum_names<TreeKind>) {
    if (kind != TreeKind::kChain) rivals.push_back({.name = name, .tree = kind});
  }
  const int most = default_draft_length(Strategy::kMirror);
  rivals.push_back(
      {.name = "mirror-chain", .strategy = Strategy::kMirror, .gamma = most, .fan_out = 1});
  rivals.push_back({.name = "mirror", .strategy = Strategy::kMirror, .gamma = most});
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
