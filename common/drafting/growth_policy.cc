// SPDX-License-Identifier: Apache-2.0
#include "common/drafting/growth_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/drafting/outcome_weights.h"

namespace outrider {
namespace {

// A node less likely than this is not worth a row of the draft.
constexpr double kMinWorth = 0.002;

// What a row is worth less for each round that lies between: there will be time for it then.
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
