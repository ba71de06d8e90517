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

void BranchPruner::begin(const Open& open, const PassPlan& plan, std::int32_t vocab) {
  open_ = &open;
  plan_ = &plan;
  vocab_ = static_cast<std::size_t>(vocab);
  nodes_.clear();
  positions_.assign(1, plan.position + static_cast<Position>(plan.tokens.size()));
  parents_.clear();
  for (const PassPlan::NodeRow& node : plan.nodes) {
    nodes_.push_back({.parent = node.parent, .score = 0});
    positions_.push_back(positions_[row_after(node.parent)] + 1);
    parents_.push_back(row_after(node.parent));
  }
  std::ranges::sort(parents_);
  const auto repeated = std::ranges::unique(parents_);
  branches_ = plan.decides && !repeated.empty();
  parents_.erase(repeated.begin(), repeated.end());
  if (!branches_) return;
  ++counts_.passes;
  counts_.rows += nodes_.size();
}

bool BranchPruner::wants(std::int32_t layer) const {
  return branches_ && layer == heads_.layers()[exit_];
}

void BranchPruner::prune(const HiddenRows& rows, std::span<std::uint8_t> keep) {
  // A pass that a backend computes in parts is pruned in none of them.
  if (rows.count != 1 + nodes_.size()) return;
  logits_.resize(parents_.size() * vocab_);
  heads_.compute(exit_, rows_with_children(rows), logits_);
  counts_.rows_scored += parents_.size();
  for (std::size_t i = 0; i < parents_.size(); ++i) {
    score_children(parents_[i], std::span(logits_).subspan(i * vocab_, vocab_));
  }
  const std::vector<std::uint8_t> goes_on = keep_branches(nodes_, threshold_);
  std::ranges::copy(goes_on, keep.begin() + 1);
  counts_.rows_ended += static_cast<std::uint64_t>(std::ranges::count(goes_on, 0));
}

// A leaf's own choice is nobody's business yet.
HiddenRows BranchPruner::rows_with_children(const HiddenRows& rows) {
  hidden_.clear();
  for (const std::size_t row : parents_) {
    const std::span<const float> values = rows.row(row);
    hidden_.insert(hidden_.end(), values.begin(), values.end());
  }
  HiddenRows some = rows;
  some.count = parents_.size();
  some.values = hidden_.data();
  return some;
}

void BranchPruner::score_children(std::size_t row, std::span<const float> logits) {
  const SamplingParams& sampling = open_->sampling;
  std::vector<TokenId> drafted;
  std::vector<std::size_t> nodes;
  for (std::size_t i = 0; i < plan_->nodes.size(); ++i) {
    if (row_after(plan_->nodes[i].parent) != row) continue;
    nodes.push_back(i);
    drafted.push_back(plan_->nodes[i].token);
  }
  const std::vector<Candidate> shadows =
      rank(logits, sampling, open_->seed, positions_[row], kShadows);
  if (shadows.empty()) return;
  const float best = shadows.front().score;
  double sum = 0;
  for (const Candidate& shadow : shadows) {
    if (std::ranges::find(drafted, shadow.token) == drafted.end()) sum += weight(shadow, best);
  }
  const DraftPrior prior = heads_.prior(exit_, sampling.temperature);
  std::vector<Candidate> children =
      perturb(logits, sampling, open_->seed, positions_[row], drafted);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    children[i].score += prior.at(log_odds(plan_->nodes[nodes[i]].confidence));
    sum += weight(children[i], best);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes_[nodes[i]].score = weight(children[i], best) / sum;
  }
}

}  // namespace outrider
