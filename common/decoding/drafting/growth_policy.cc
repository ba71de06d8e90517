// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/growth_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

// A node less likely than this is not worth a row of the draft.
constexpr double kMinWorth = 0.002;

// The factor by which a row is worth less for each round that lies between: there will be time for
// it then.
constexpr double kLaterRound = 0.5;

// Whether every node from below `from` down to `node` is its parent's likeliest child.
bool on_likeliest_chain(const MirroredTree& tree, NodeIndex from, NodeIndex node) {
  while (node != from) {
    const NodeIndex parent = tree.node(node).parent;
    if (likeliest_child(tree, parent) != node) return false;
    node = parent;
  }
  return true;
}

std::uint32_t scrambled(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x45d9f3bu;
  x = (x ^ (x >> 16)) * 0x45d9f3bu;
  return x ^ (x >> 16);
}

}  // namespace

// --- chances ------------------------------------------------------------------------------------

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

// --- growth -------------------------------------------------------------------------------------

Hypothesis hypothesis_of(const GrowthView& view, NodeIndex node) {
  Hypothesis found;
  for (NodeIndex at = node; at != kRoot && !view.note(at).in_flight;
       at = view.tree.node(at).parent) {
    found.outcome = at;
    ++found.rows;
  }
  return found;
}

std::vector<LikeliestChain> round_chains(const MirroredTree& tree, const RoundShape& shape) {
  std::vector<LikeliestChain> chains;
  if (shape.length == 0) return chains;
  for (const NodeIndex first : likeliest_children(tree, kRoot, shape.branches)) {
    chains.push_back(likeliest_chain_from(tree, first, shape.bounds()));
  }
  return chains;
}

RoundPolicy::RoundPolicy(const RoundShape& shape, int fan_out)
    : shape_(shape), fan_out_(std::max(fan_out, static_cast<int>(shape.branches))) {}

double RoundPolicy::worth(const GrowthView& view, NodeIndex node) const {
  const auto depth = static_cast<std::size_t>(depth_of(view.tree, node));
  if (depth >= shape_.length) return 0;
  for (const LikeliestChain& chain : round_chains(view.tree, shape_)) {
    const std::vector<NodeIndex>& nodes = chain.nodes;
    const bool goes_on = !chain.whole && depth <= nodes.size() && nodes[depth - 1] == node;
    if (goes_on) return static_cast<double>(depth);
  }
  return 0;
}

double PredraftPolicy::worth(const GrowthView& view, NodeIndex node) const {
  const Hypothesis at = hypothesis_of(view, node);
  return options_.exits_only ? worth_named(view, node, at) : worth_any(view, node, at);
}

// A hypothesis once begun keeps its place in the queue until its chain is whole (FSD algorithm 1).
double PredraftPolicy::worth_named(const GrowthView& view, NodeIndex node,
                                   const Hypothesis& at) const {
  if (at.rows == 0 || at.rows > options_.gamma) return 0;
  const NodeNote& named = view.note(at.outcome);
  if (!named.exit || !on_likeliest_chain(view.tree, at.outcome, node)) return 0;
  return ordered(1 + named.advised, named);  // a node that an exit named is worth a row
}

double PredraftPolicy::worth_any(const GrowthView& view, NodeIndex node,
                                 const Hypothesis& at) const {
  double worth = view.weight(node);
  if (worth < kMinWorth) return 0;
  if (at.rows == 1) worth *= 1 + options_.first_saves;
  const int rounds_between = at.rows == 0 ? 0 : (at.rows - 1) / options_.gamma;
  worth *= std::pow(kLaterRound, rounds_between);
  return ordered(worth, at.rows == 0 ? view.note(node) : view.note(at.outcome));
}

double PredraftPolicy::ordered(double priority, const NodeNote& note) const {
  switch (options_.order) {
    case QueueOrder::kPriority:
      return priority;
    case QueueOrder::kFifo:
      return 0x1p33 - note.order;
    case QueueOrder::kRandom:
      return 1 + scrambled(note.order) / 0x1p32;
  }
  return priority;
}

}  // namespace outrider
