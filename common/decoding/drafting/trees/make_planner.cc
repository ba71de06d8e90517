// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/make_planner.h"

#include <utility>

#include "common/decoding/drafting/trees/branch_pacer.h"

namespace outrider {
namespace {

constexpr std::size_t kPacedNodes = 32;
constexpr std::size_t kGainCostNodes = 64;

}  // namespace

bool drafts_provisionally(TreeKind kind) {
  return kind == TreeKind::kLlmcad || kind == TreeKind::kEdgellm || kind == TreeKind::kOutrider;
}

std::unique_ptr<RoundPlanner> make_planner(const TreeOptions& options, TreeMemory& memory,
                                           std::function<double(std::size_t)> draft_ms) {
  const auto size = [&](std::size_t own) { return options.size > 0 ? options.size : own; };
  switch (options.kind) {
    case TreeKind::kChain:
      break;
    case TreeKind::kLlmcad:
    case TreeKind::kEdgellm:
      return std::make_unique<BranchPacer>(BranchPacer::Options{
          .normalised = options.kind == TreeKind::kLlmcad, .max_nodes = size(kPacedNodes)});
    case TreeKind::kGuest:
      return options.kind.guest().make(options.size);
    case TreeKind::kLever:
    case TreeKind::kOutrider:
      return std::make_unique<GainCostTree>(
          GainCostTree::Options{.separate_rows = options.kind == TreeKind::kOutrider,
                                .batch = options.batch,
                                .max_nodes = size(kGainCostNodes)},
          memory, std::move(draft_ms));
  }
  return nullptr;
}

}  // namespace outrider
