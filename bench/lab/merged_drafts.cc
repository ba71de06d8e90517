// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/merged_drafts.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace outrider {
namespace {

// The logits of guesses; those of all other tokens are 0. The first draft's has twice the
// probability of the other's.
constexpr float kFirst = 30.7F, kOther = 30.0F;
constexpr double kOfBoth = 0.9;  // more is what both guess

constexpr Position kSpecInferDepth = 8;

std::size_t best_of(std::span<const float> logits) {
  return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

// A node on the chains of some of the drafts.
struct OnChain {
  NodeIndex node = kRoot;
  bool one = true, other = true;
};

}  // namespace

Status MergedDrafts::forward(std::span<const Row> rows, PassOutput& out) {
  PassOutput other{.abandoned = out.abandoned};
  OUTRIDER_RETURN_IF_ERROR(other_.forward(rows, other));
  OUTRIDER_RETURN_IF_ERROR(one_.forward(rows, out));
  const auto vocab = static_cast<std::size_t>(out.vocab_size);
  for (std::size_t i = 0; i * vocab < out.logits.size(); ++i) {
    const std::size_t first = best_of(out.row(i)), second = best_of(other.row(i));
    const auto row = std::span(out.logits).subspan(i * vocab, vocab);
    std::ranges::fill(row, 0.0F);
    row[second] = kOther;
    row[first] = kFirst;
  }
  return {};
}

RoundPlan MergedChains::plan(const PlanView& view) {
  RoundPlan plan;
  std::vector<OnChain> level{{}};
  for (Position depth = 0; depth < length_ && plan.expand.empty(); ++depth) {
    std::vector<OnChain> next;
    for (const OnChain& at : level) {
      if (!view.is_expanded(at.node)) {
        if (view.can_expand(at.node)) plan.expand.push_back(at.node);
        continue;
      }
      for (const NodeIndex child : view.candidates(at.node)) {
        const double confidence = view.confidence(child);
        OnChain on{child, at.one && confidence > 0.5, at.other && confidence < 0.5};
        if (confidence > kOfBoth) on.other = at.other;
        if (!on.one && !on.other) continue;
        if (plan.nodes.size() == view.limits().max_nodes) return {std::move(plan.nodes), {}};
        plan.nodes.push_back(child);
        next.push_back(on);
      }
    }
    level = std::move(next);
  }
  return plan;
}

const GuestTree& merged_tree() {
  static const GuestTree tree{
      "specinfer", [](std::size_t) { return std::make_unique<MergedChains>(kSpecInferDepth); }};
  return tree;
}

}  // namespace outrider
