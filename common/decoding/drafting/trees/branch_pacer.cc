// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/branch_pacer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace outrider {
namespace {

// alpha stays within: at 1 nothing would ever be drafted.
constexpr double kMinAlpha = 1e-6;
constexpr double kMaxAlpha = 0.95;

}  // namespace

// D = max (M C_i - T_i): the branch that is short of most tokens; the earlier one of equals.
const BranchPacer::Branch* BranchPacer::furthest_below(const std::vector<Branch>& branches,
                                                       std::size_t nodes) const {
  double sum = 1;
  if (options_.normalised) {
    sum = 0;
    for (const Branch& branch : branches) sum += branch.confidence;
  }
  const Branch* furthest = nullptr;
  double most = 0;
  for (const Branch& branch : branches) {
    if (branch.ended) continue;
    const double missing =
        static_cast<double>(nodes) * branch.confidence / std::max(sum, 1e-12) - branch.length;
    if (furthest != nullptr && missing <= most) continue;
    furthest = &branch;
    most = missing;
  }
  return furthest;
}

// The best candidate lengthens the branch; each other one that is sure enough begins a new one.
void BranchPacer::grow(const PlanView& view, std::size_t at, RoundPlan& plan,
                       std::vector<Branch>& branches) const {
  const Branch from = branches[at];
  std::vector<NodeIndex> candidates = view.candidates(from.leaf);
  std::ranges::stable_sort(candidates, std::ranges::greater{},
                           [&](NodeIndex node) { return view.confidence(node); });
  branches[at].ended = true;
  const std::size_t most = std::min(options_.max_nodes, view.limits().max_nodes);
  for (std::size_t i = 0; i < candidates.size() && plan.nodes.size() < most; ++i) {
    const double confidence = view.confidence(candidates[i]);
    if (i > 0 && confidence < options_.new_branch) break;
    plan.nodes.push_back(candidates[i]);
    const Branch grown{candidates[i], from.confidence * confidence, from.length + 1,
                       !view.can_expand(candidates[i])};
    if (i == 0) {
      branches[at] = grown;
    } else {
      branches.push_back(grown);
    }
  }
}

RoundPlan BranchPacer::plan(const PlanView& view) {
  RoundPlan plan;
  std::vector<Branch> branches{{}};
  branches[0].ended = !view.can_expand(kRoot);
  const std::size_t most = std::min(options_.max_nodes, view.limits().max_nodes);
  while (plan.nodes.size() < most) {
    double tree_confidence = 0;  // Tc
    for (const Branch& branch : branches) {
      tree_confidence = std::max(tree_confidence, branch.confidence);
    }
    if (tree_confidence < alpha_) break;
    const Branch* next = furthest_below(branches, plan.nodes.size());
    if (next == nullptr) break;
    if (!view.is_expanded(next->leaf)) {
      plan.expand.push_back(next->leaf);  // one row a step: no batching (EdgeLLM, figure 9)
      break;
    }
    grow(view, static_cast<std::size_t>(next - branches.data()), plan, branches);
  }
  return plan;
}

void BranchPacer::on_sent(const RoundPlan& plan, const PlanView& view) {
  sent_ = SentRound(plan, view);
  std::map<NodeIndex, double> confidence{{kRoot, 1}};
  std::map<NodeIndex, bool> is_leaf;
  for (const NodeIndex node : plan.nodes) {
    confidence[node] = confidence[view.parent(node)] * view.confidence(node);
    is_leaf[view.parent(node)] = false;
    is_leaf[node] = true;
  }
  sent_confidence_ = 0;
  for (const auto& [node, leaf] : is_leaf) {
    if (leaf) sent_confidence_ = std::max(sent_confidence_, confidence[node]);
  }
}

void BranchPacer::on_verdict(std::span<const TokenId> tokens, const PassShape& /*pass*/) {
  const SentRound::Match match = std::exchange(sent_, {}).match(tokens);
  if (!options_.adapts) return;
  if (match.accepted == match.length) {
    // Also where nothing was tried: the threshold must not shut drafting off for good.
    alpha_ *= options_.relax;
  } else {
    const double wrong = static_cast<double>(match.length - match.accepted);
    alpha_ /= std::pow(std::max(sent_confidence_, 1e-9), wrong / static_cast<double>(match.length));
  }
  alpha_ = std::clamp(alpha_, kMinAlpha, kMaxAlpha);
}

}  // namespace outrider
