// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/branch_pruner.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "common/engine/sampling/sampling.h"

namespace outrider {
namespace {

const std::vector<DraftCandidate> kNoCandidates;

constexpr int kShadows = 8;  // the exit's likeliest tokens, drafted ones among them

constexpr int kKeptAtRoot = 2;
constexpr std::size_t kMinKeptOneIn = 4;  // of so many nodes or leaves at least one is left

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

// The number of kept nodes that have no kept node below them.
std::size_t count_leaves(std::span<const BranchNode> nodes, const std::vector<std::uint8_t>& keep) {
  std::vector<std::uint8_t> is_leaf = keep;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (keep[i] != 0 && nodes[i].parent >= 0)
      is_leaf[static_cast<std::size_t>(nodes[i].parent)] = 0;
  }
  return static_cast<std::size_t>(std::ranges::count(is_leaf, 1));
}

constexpr OnlineLogistic<3>::Rule kEdgeRule{
    .keep = 0.999,  // about a thousand edges count
    .prior = {0, 0.5, 0.5},
    .lasting = {4, 4, 4},
    .low = EdgeChance::kLowest,
    .high = EdgeChance::kHighest,
};

}  // namespace

std::vector<std::uint8_t> keep_branches(std::span<const BranchNode> nodes, double threshold,
                                        PruneRule rule) {
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
    const double score = nodes[i].score;
    chances[i] = rule == PruneRule::kEdges ? std::min(above, score) : above * score;
    if (chances[i] >= threshold) keep[i] = 1;
  }
  const auto left = static_cast<std::size_t>(std::ranges::count(keep, 1));
  const std::vector<std::uint8_t> all(nodes.size(), 1);
  const bool too_few = left * kMinKeptOneIn < nodes.size() ||
                       count_leaves(nodes, keep) * kMinKeptOneIn < count_leaves(nodes, all);
  return too_few ? all : keep;
}

EdgeChance::EdgeChance() : EdgeChance(kEdgeRule.prior) {}

EdgeChance::EdgeChance(const Weights& weights) : logistic_(kEdgeRule, weights) {}

std::array<double, 3> EdgeChance::evidence(double score, float confidence) {
  constexpr double kLeast = 1e-5;
  const double clamped = score > kLeast ? std::min(score, 1 - kLeast) : kLeast;  // so is NaN
  return {1, std::log(clamped / (1 - clamped)), log_odds(confidence)};
}

BranchPruner::BranchPruner(ExitHeads& heads, double threshold, std::int32_t num_layers,
                           PruneRule rule, double temperature)
    : heads_(heads), threshold_(threshold), rule_(rule), temperature_(temperature) {
  std::vector<std::int32_t> layers(heads.layers().begin(), heads.layers().end());
  if (const auto own = heads.pruning_layer()) layers.push_back(*own);
  OUTRIDER_CHECK(!layers.empty());
  exit_ = nearest_to_middle(layers, num_layers);
  layer_ = layers[exit_];
}

std::optional<EdgeChance::Weights> BranchPruner::learnt(const std::string& tenant) const {
  const auto chance = chances_.find(tenant);
  return chance == chances_.end() ? std::nullopt : std::optional(chance->second.weights());
}

void BranchPruner::begin(std::int32_t vocab) {
  vocab_ = static_cast<std::size_t>(vocab);
  branches_.clear();
  parents_.clear();
  knows_candidates_ = true;
}

void BranchPruner::watch(const Open& open, const std::string& tenant, const PassPlan& plan,
                         std::size_t first_row) {
  if (!plan.decides || plan.nodes.empty()) return;
  Branches branches{.open = &open,
                    .chance = &chances_.try_emplace(tenant, beginning_).first->second,
                    .first_row = first_row};
  std::vector<Parent> rows(1 + plan.nodes.size());  // all, with and without children
  rows[0].position = plan.position + static_cast<Position>(plan.tokens.size());
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PassPlan::NodeRow& node = plan.nodes[i];
    Parent& parent = rows[row_after(node.parent)];
    rows[i + 1].row = i + 1;
    rows[i + 1].position = parent.position + 1;
    parent.contenders.push_back(
        {.token = node.token, .node = static_cast<std::int32_t>(i), .confidence = node.confidence});
    branches.nodes.push_back({.parent = node.parent, .score = 0});
  }
  const bool branches_off =
      std::ranges::any_of(rows, [](const Parent& row) { return row.contenders.size() > 1; });
  if (!branches_off) return;
  for (Parent& row : rows) {
    if (row.contenders.empty()) continue;  // a leaf's own choice is nobody's business yet
    const bool known = row.row < plan.candidates.size() && !plan.candidates[row.row].empty();
    knows_candidates_ = knows_candidates_ && known;
    for (const DraftCandidate& one : known ? plan.candidates[row.row] : kNoCandidates) {
      if (std::ranges::count(row.contenders, one.token, &Contender::token) > 0) continue;
      row.contenders.push_back({.token = one.token, .confidence = one.confidence});
    }
    parents_.add(first_row + row.row);
    branches.parents.push_back(std::move(row));
  }
  ++counts_.passes;
  counts_.rows += branches.nodes.size();
  branches_.push_back(std::move(branches));
}

bool BranchPruner::wants(std::int32_t layer) const {
  return !branches_.empty() && layer == layer_;
}

void BranchPruner::prune(const HiddenRows& rows, std::span<std::uint8_t> keep) {
  const HiddenRows parents = parents_.of(rows);
  // A pass that a backend computes in parts is pruned in none of them.
  if (parents.count != parents_.size()) return;
  knows_candidates_ ? score_candidates(parents) : score_all(parents);
  for (const Branches& branches : branches_) {
    const std::size_t first = branches.first_row - rows.first;
    if (first + branches.nodes.size() >= rows.count) continue;
    const std::vector<std::uint8_t> goes_on = keep_branches(branches.nodes, threshold_, rule_);
    std::ranges::copy(goes_on, keep.begin() + static_cast<std::ptrdiff_t>(first) + 1);
    counts_.rows_ended += static_cast<std::uint64_t>(std::ranges::count(goes_on, 0));
  }
}

// Reads the contenders' rows of the output matrix alone (eq. 7).
void BranchPruner::score_candidates(const HiddenRows& parents) {
  TokensOfRows wanted{.vocab = vocab_};
  std::size_t count = 0;
  for (const Branches& branches : branches_) {
    for (const Parent& parent : branches.parents) {
      std::vector<TokenId>& tokens = wanted.rows.emplace_back();
      for (const Contender& one : parent.contenders) tokens.push_back(one.token);
      count += tokens.size();
    }
  }
  logits_.resize(count);
  heads_.compute_some(exit_, parents, wanted, logits_);
  std::span<const float> rest = logits_;
  for (Branches& branches : branches_) {
    for (Parent& parent : branches.parents) {
      score_parent(branches, parent, rest.first(parent.contenders.size()));
      rest = rest.subspan(parent.contenders.size());
    }
  }
}

// The exit's likeliest tokens join the contenders.
void BranchPruner::score_all(const HiddenRows& parents) {
  logits_.resize(parents.count * vocab_);
  heads_.compute(exit_, parents, logits_);
  counts_.rows_scored += parents.count;
  std::span<const float> rest = logits_;
  for (Branches& branches : branches_) {
    for (Parent& parent : branches.parents) {
      const std::span<const float> row = rest.first(vocab_);
      rest = rest.subspan(vocab_);
      for (const Candidate& likely :
           rank(row, branches.open->sampling, branches.open->seed, parent.position, kShadows)) {
        if (std::ranges::count(parent.contenders, likely.token, &Contender::token) > 0) continue;
        parent.contenders.push_back({.token = likely.token});
      }
      std::vector<float> logits;
      for (const Contender& one : parent.contenders) {
        logits.push_back(row[static_cast<std::size_t>(one.token)]);
      }
      score_parent(branches, parent, logits);
    }
  }
}

// Eq. 11.
void BranchPruner::score_parent(Branches& branches, Parent& parent,
                                std::span<const float> logits) const {
  const SamplingParams& sampling = branches.open->sampling;
  const DraftPrior prior = heads_.prior(exit_, sampling.temperature);
  std::vector<Candidate> scored;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    scored.push_back({parent.contenders[i].token, logits[i]});
  }
  perturb(scored, sampling, branches.open->seed, parent.position);
  for (std::size_t i = 0; i < scored.size(); ++i) {
    const std::optional<float>& confidence = parent.contenders[i].confidence;
    if (confidence && rule_ == PruneRule::kBranches)
      scored[i].score += prior.at(log_odds(*confidence));
  }
  const float best = std::ranges::max(scored, {}, &Candidate::score).score;
  double sum = 0;
  const auto weight = [&](const Candidate& one) {
    // An exit that considers none of them says nothing.
    return std::isinf(best) ? 1 : std::exp((double{one.score} - best) / temperature_);
  };
  for (const Candidate& one : scored) sum += weight(one);
  for (std::size_t i = 0; i < scored.size(); ++i) {
    Contender& one = parent.contenders[i];
    if (one.node < 0) continue;
    one.score = weight(scored[i]) / sum;
    branches.nodes[static_cast<std::size_t>(one.node)].score =
        rule_ == PruneRule::kEdges ? *one.score
                                   : branches.chance->at(*one.score, one.confidence.value_or(0.5f));
  }
}

void BranchPruner::learn(const PassPlan& plan, std::size_t first_row,
                         const std::function<std::optional<TokenId>(std::size_t row)>& chosen) {
  const auto branches = std::ranges::find(branches_, first_row, &Branches::first_row);
  if (branches == branches_.end()) return;
  for (std::size_t row = 0;;) {
    const auto parent = std::ranges::find(branches->parents, row, &Parent::row);
    const std::optional<TokenId> token = chosen(row);
    if (parent == branches->parents.end() || !token) return;
    std::int32_t next = -1;
    for (const Contender& one : parent->contenders) {
      if (one.node < 0 || !one.score) continue;
      const bool is_next = one.token == *token;
      branches->chance->learn(*one.score, one.confidence.value_or(0.5f), is_next);
      if (is_next) next = one.node;
    }
    if (next < 0 || plan.nodes[static_cast<std::size_t>(next)].ended) return;
    row = row_after(next);
  }
}

}  // namespace outrider
