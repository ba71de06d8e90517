// SPDX-License-Identifier: Apache-2.0
#include "common/drafting/outcome_weights.h"

#include <algorithm>

namespace outrider {
namespace {

// Nothing is sure, and nothing impossible: later advice must be able to change it.
constexpr double kMinChance = 1e-6;

double& at(std::vector<double>& weights, NodeIndex node) {
  return weights[static_cast<std::size_t>(node)];
}

void multiply_paths(const MirroredTree& tree, std::vector<double>& weights) {
  std::vector<NodeIndex> level(tree.children(kRoot).begin(), tree.children(kRoot).end());
  for (std::size_t i = 0; i < level.size(); ++i) {
    const TreeNode& node = tree.node(level[i]);
    const double above = node.parent == kRoot ? 1.0 : at(weights, node.parent);
    at(weights, level[i]) = above * static_cast<double>(node.confidence);
    level.insert(level.end(), node.children.begin(), node.children.end());
  }
}

void take_advice(const MirroredTree& tree, const OutcomeAdvice& advice,
                 std::vector<double>& weights) {
  const double before = std::clamp(at(weights, advice.outcome), kMinChance, 1.0 - kMinChance);
  const double after = std::clamp(advice.probability, kMinChance, 1.0 - kMinChance);
  // joint[a]: the chance that both a and the outcome become text.
  std::vector<double> joint(weights.size(), 0.0);
  at(joint, advice.outcome) = before;
  at(weights, advice.outcome) = before;
  for (NodeIndex above = tree.node(advice.outcome).parent; above != kRoot;
       above = tree.node(above).parent) {
    at(joint, above) = before;
    at(weights, above) = std::max(at(weights, above), before);
  }
  const std::span<const NodeIndex> children = tree.children(advice.outcome);
  std::vector<NodeIndex> below(children.begin(), children.end());
  for (std::size_t i = 0; i < below.size(); ++i) {
    at(joint, below[i]) = std::min(at(weights, below[i]), before);
    const std::span<const NodeIndex> more = tree.children(below[i]);
    below.insert(below.end(), more.begin(), more.end());
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = joint[i] * after / before +
                 std::max(0.0, weights[i] - joint[i]) * (1 - after) / (1 - before);
  }
}

}  // namespace

NodeIndex likeliest_child(const MirroredTree& tree, NodeIndex parent) {
  NodeIndex best = kNoNode;
  for (const NodeIndex child : tree.children(parent)) {
    if (best == kNoNode || tree.node(child).confidence > tree.node(best).confidence) best = child;
  }
  return best;
}

std::vector<NodeIndex> likeliest_children(const MirroredTree& tree, NodeIndex parent,
                                          std::size_t count) {
  const std::span<const NodeIndex> all = tree.children(parent);
  std::vector<NodeIndex> children(all.begin(), all.end());
  std::ranges::stable_sort(children, std::ranges::greater{},
                           [&](NodeIndex node) { return tree.node(node).confidence; });
  if (children.size() > count) children.resize(count);
  return children;
}

LikeliestChain likeliest_chain(const MirroredTree& tree, NodeIndex from,
                               const ChainBounds& bounds) {
  const NodeIndex first = likeliest_child(tree, from);
  return first == kNoNode ? LikeliestChain{.nodes = {}, .whole = bounds.most == 0}
                          : likeliest_chain_from(tree, first, bounds);
}

LikeliestChain likeliest_chain_from(const MirroredTree& tree, NodeIndex first,
                                    const ChainBounds& bounds) {
  LikeliestChain chain{.nodes = {}, .whole = bounds.most == 0};
  double chance = 1;
  for (NodeIndex at = first; at != kNoNode && !chain.whole; at = likeliest_child(tree, at)) {
    chance *= tree.node(at).confidence;
    const bool unlikely = chance < bounds.least_chance;
    if (!unlikely || at == first) chain.nodes.push_back(at);
    chain.whole = unlikely || chain.nodes.size() == bounds.most;
  }
  return chain;
}

void weigh_outcomes(const MirroredTree& tree, std::span<const OutcomeAdvice> advice,
                    std::vector<double>& weights) {
  weights.assign(tree.index_limit(), 0.0);
  multiply_paths(tree, weights);
  for (const OutcomeAdvice& one : advice) {
    if (tree.contains(one.outcome)) take_advice(tree, one, weights);
  }
}

}  // namespace outrider
