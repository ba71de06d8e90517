// SPDX-License-Identifier: Apache-2.0
#include "common/verify/branch_pruner.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/sampling/sampling.h"

namespace outrider {
namespace {

constexpr int kShadows = 8;  // the exit's likeliest tokens, drafted ones among them

// Of eq. 11; best: the score of the likeliest token.
double weight(const Candidate& candidate, float best) {
  return std::exp(double{candidate.score} - best);
}

constexpr int kKeptAtRoot = 2;
constexpr std::size_t kMinKeptOneIn = 4;  // of so many nodes at least one is left

// The best child that is not kept yet; -1: none.
std::int32_t best_child(std::span<const BranchNode> nodes, std::int32_t parent,
                        const std::vector<std::uint8_t>& skip) {
  std::int32_t best = -1;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].parent != parent || skip[i] != 0) continue;
    if (best < 0 || nodes[i].score > nodes[static_cast<std::size_t>(best)].score) {
      best = static_cast<std::int32_t>(i);
    }
  }
  return best;
}

}  // namespace

std::vector<std::uint8_t> keep_branches(std::span<const BranchNode> nodes, double threshold) {
  std::vector<std::uint8_t> keep(nodes.size(), 0);
  const std::vector<std::uint8_t> nobody(nodes.size(), 0);
  for (std::int32_t at = best_child(nodes, -1, nobody); at >= 0;
       at = best_child(nodes, at, nobody)) {
    keep[static_cast<std::size_t>(at)] = 1;
  }
  for (int kept = 1; kept < kKeptAtRoot; ++kept) {
    const std::int32_t next = best_child(nodes, -1, keep);
    if (next >= 0) keep[static_cast<std::size_t>(next)] = 1;
  }
  std::vector<double> chances(nodes.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::int32_t parent = nodes[i].parent;
    const double above = parent < 0 ? 1 : chances[static_cast<std::size_t>(parent)];
    chances[i] = above * nodes[i].score;
    if (chances[i] >= threshold) keep[i] = 1;
  }
  const auto left = static_cast<std::size_t>(std::ranges::count(keep, 1));
  if (left * kMinKeptOneIn < nodes.size()) std::ranges::fill(keep, 1);
  return keep;
}

BranchPruner::BranchPruner(ExitHeads& heads, double threshold, std::int32_t num_layers)
    : heads_(heads), threshold_(threshold) {
  const auto layers = heads.layers();
  const auto nearest = std::ranges::min_element(
      layers, {}, [&](std::int32_t layer) { return std::abs(2 * layer - num_layers); });
  exit_ = static_cast<std::size_t>(nearest - layers.begin());
}

void BranchPruner::begin(std::int32_t vocab) {
  vocab_ = static_cast<std::size_t>(vocab);
  branches_.clear();
  parents_.clear();
}

void BranchPruner::watch(const Open& open, const PassPlan& plan, std::size_t first_row) {
  if (!plan.decides) return;
  Branches branches{.open = &open, .plan = &plan, .first_row = first_row};
  branches.positions.assign(1, plan.position + static_cast<Position>(plan.tokens.size()));
  for (const PassPlan::NodeRow& node : plan.nodes) {
    branches.nodes.push_back({.parent = node.parent, .score = 0});
    branches.positions.push_back(branches.positions[row_after(node.parent)] + 1);
    branches.parents.push_back(row_after(node.parent));
  }
  std::ranges::sort(branches.parents);
  const auto repeated = std::ranges::unique(branches.parents);
  if (repeated.empty()) return;
  branches.parents.erase(repeated.begin(), repeated.end());
  branches.first_parent = parents_.size();
  // A leaf's own choice is nobody's business yet.
  for (const std::size_t row : branches.parents) parents_.add(first_row + row);
  ++counts_.passes;
  counts_.rows += branches.nodes.size();
  branches_.push_back(std::move(branches));
}

bool BranchPruner::wants(std::int32_t layer) const {
  return !branches_.empty() && layer == heads_.layers()[exit_];
}

void BranchPruner::prune(const HiddenRows& rows, std::span<std::uint8_t> keep) {
  const HiddenRows parents = parents_.of(rows);
  // A pass that a backend computes in parts is pruned in none of them.
  if (parents.count != parents_.size()) return;
  logits_.resize(parents.count * vocab_);
  heads_.compute(exit_, parents, logits_);
  counts_.rows_scored += parents.count;
  for (Branches& branches : branches_) {
    const std::size_t first = branches.first_row - rows.first;
    if (first + branches.nodes.size() >= rows.count) continue;
    for (std::size_t i = 0; i < branches.parents.size(); ++i) {
      score_children(branches, branches.parents[i],
                     std::span(logits_).subspan((branches.first_parent + i) * vocab_, vocab_));
    }
    const std::vector<std::uint8_t> goes_on = keep_branches(branches.nodes, threshold_);
    std::ranges::copy(goes_on, keep.begin() + static_cast<std::ptrdiff_t>(first) + 1);
    counts_.rows_ended += static_cast<std::uint64_t>(std::ranges::count(goes_on, 0));
  }
}

void BranchPruner::score_children(Branches& branches, std::size_t row,
                                  std::span<const float> logits) const {
  const PassPlan& plan = *branches.plan;
  const SamplingParams& sampling = branches.open->sampling;
  std::vector<TokenId> drafted;
  std::vector<std::size_t> nodes;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    if (row_after(plan.nodes[i].parent) != row) continue;
    nodes.push_back(i);
    drafted.push_back(plan.nodes[i].token);
  }
  const std::vector<Candidate> shadows =
      rank(logits, sampling, branches.open->seed, branches.positions[row], kShadows);
  if (shadows.empty()) return;
  const float best = shadows.front().score;
  double sum = 0;
  for (const Candidate& shadow : shadows) {
    if (std::ranges::find(drafted, shadow.token) == drafted.end()) sum += weight(shadow, best);
  }
  const DraftPrior prior = heads_.prior(exit_, sampling.temperature);
  std::vector<Candidate> children =
      perturb(logits, sampling, branches.open->seed, branches.positions[row], drafted);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    children[i].score += prior.at(log_odds(plan.nodes[nodes[i]].confidence));
    sum += weight(children[i], best);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    branches.nodes[nodes[i]].score = weight(children[i], best) / sum;
  }
}

}  // namespace outrider
