// SPDX-License-Identifier: Apache-2.0
#include "common/drafting/trees/gain_cost_tree.h"

#include <algorithm>

namespace outrider {
namespace {

// Of what is learnt from one verdict.
constexpr double kLearn = 0.05;

// Draft steps run one row until the tree has so many nodes (LEVER, section 4.4: batches come as
// candidates do).
constexpr std::size_t kSerialNodes = 4;

// What a row that reading hides costs all the same: it may be for nothing.
constexpr double kMinRow = 0.1;

}  // namespace

struct GainCostTree::Growth {
  RoundPlan plan = {};
  std::vector<Move> frontier = {};
  std::set<NodeIndex> parents = {};  // nodes of the plan with a child in it
  std::size_t leaves = 1;
  double gain = 1;     // G(T)
  double draft = 0;    // of C(T)
  double drafted = 0;  // for this round, hidden or not

  std::size_t leaves_with(const PlanView& view, NodeIndex node) const {
    const bool first = plan.nodes.empty() || !parents.contains(view.parent(node));
    return first ? leaves : leaves + 1;
  }
};

// b(v).
double GainCostTree::reach(const PlanView& view, NodeIndex node, double parent, double mass) const {
  if (options_.separate_rows) return view.chance(node);
  return parent * view.confidence(node) * std::min(1.0, reliability_ / std::max(mass, 1e-9));
}

// Puts the children of a node whose guesses are there on the frontier.
void GainCostTree::open(const PlanView& view, NodeIndex node, double reached,
                        Growth& growth) const {
  const std::vector<NodeIndex> candidates = view.candidates(node);
  double mass = 0;
  for (const NodeIndex child : candidates) mass += view.confidence(child);
  for (const NodeIndex child : candidates) {
    growth.frontier.push_back({.node = child, .gain = reach(view, child, reached, mass)});
  }
}

double GainCostTree::draft_row_ms(const Growth& growth) const {
  const std::size_t batched = growth.plan.expand.size();
  const double row = draft_ms_(batched + 1) - (batched > 0 ? draft_ms_(batched) : 0);
  if (!options_.separate_rows) return row;
  const double hidden = memory_.hidden.ms();
  const double before = std::max(growth.drafted - hidden, 0.0);
  const double after = std::max(growth.drafted + row - hidden, 0.0);
  return std::max(after - before, kMinRow * row);
}

void GainCostTree::spend_row(Growth& growth) const {
  growth.draft += draft_row_ms(growth);
  growth.drafted += draft_ms_(1);
}

// What verifying a node more costs.
double GainCostTree::cost_of_node(const PlanView& view, const Move& move,
                                  const Growth& growth) const {
  const std::size_t nodes = growth.plan.nodes.size();
  const double now = verify_ms(nodes, growth.leaves);
  const std::size_t leaves = move.runs_row ? growth.leaves : growth.leaves_with(view, move.node);
  return std::max(options_.least_cost * (growth.draft + now), verify_ms(nodes + 1, leaves) - now);
}

// b(v) / dC(v | T).
double GainCostTree::ratio(const PlanView& view, const Move& move, const Growth& growth) const {
  double cost = cost_of_node(view, move, growth);
  if (move.runs_row) return move.gain * best_child_ / (cost + draft_row_ms(growth));
  const bool runs = !options_.separate_rows && view.can_expand(move.node);
  if (runs && !kept_.contains(move.node)) cost += draft_row_ms(growth);
  return move.gain / cost;
}

void GainCostTree::add(const PlanView& view, const Move& move, Growth& growth) const {
  growth.leaves = growth.leaves_with(view, move.node);
  growth.plan.nodes.push_back(move.node);
  growth.parents.insert(view.parent(move.node));
  growth.gain += move.gain;
  if (view.is_expanded(move.node)) {
    if (!kept_.contains(move.node)) spend_row(growth);
    open(view, move.node, move.gain, growth);
  } else if (view.can_expand(move.node)) {
    if (options_.separate_rows) {
      growth.frontier.push_back({move.node, move.gain, true});
    } else {
      growth.plan.expand.push_back(move.node);
    }
  }
}

RoundPlan GainCostTree::plan(const PlanView& view) {
  if (!in_round_) begin_round(view);
  if (rests_) return {};
  if (!view.is_expanded(kRoot)) {
    return view.can_expand(kRoot) ? RoundPlan{{}, {kRoot}} : RoundPlan{};
  }
  Growth growth;
  if (!kept_.contains(kRoot)) spend_row(growth);
  open(view, kRoot, 1, growth);
  const std::size_t most = std::min(
      memory_.passes.known() ? options_.max_nodes : options_.first_nodes, view.limits().max_nodes);
  while (growth.plan.nodes.size() < most && !growth.frontier.empty()) {
    // Moves are compared by what their cost shares less: all have the same if nothing is known.
    auto best = growth.frontier.begin();
    double best_ratio = 0;
    for (auto it = best; it != growth.frontier.end(); ++it) {
      const double value = memory_.passes.known() ? ratio(view, *it, growth) : it->gain;
      if (value <= best_ratio) continue;
      best = it;
      best_ratio = value;
    }
    const double cycle = growth.draft + verify_ms(growth.plan.nodes.size(), growth.leaves);
    if (best_ratio <= 0 || (memory_.passes.known() && best_ratio <= growth.gain / cycle)) break;
    const Move move = *best;
    growth.frontier.erase(best);
    if (move.runs_row) {
      growth.plan.expand.push_back(move.node);
    } else {
      add(view, move, growth);
    }
    const std::size_t batch = growth.plan.nodes.size() < kSerialNodes ? 1 : options_.batch;
    if (growth.plan.expand.size() >= batch) break;
  }
  return std::move(growth.plan);
}

void GainCostTree::begin_round(const PlanView& view) {
  in_round_ = true;
  kept_.clear();
  if (view.is_expanded(kRoot)) kept_.insert(kRoot);
  for (const NodeIndex node : view.nodes()) {
    if (view.is_expanded(node)) kept_.insert(node);
  }
  rests_ = options_.separate_rows && !memory_.payoff.begin_round();
}

void GainCostTree::on_sent(const RoundPlan& plan, const PlanView& view) {
  sent_ = SentRound(plan, view);
  in_round_ = false;
  drafted_ms_ = 0;
  if (view.is_expanded(kRoot) && !kept_.contains(kRoot)) drafted_ms_ += draft_ms_(1);
  for (const NodeIndex node : plan.nodes) {
    if (view.is_expanded(node) && !kept_.contains(node)) drafted_ms_ += draft_ms_(1);
  }
}

void GainCostTree::on_verdict(std::span<const TokenId> tokens, const PassShape& pass) {
  const SentRound::Match match = sent_.match(tokens);
  if (match.asked > 0) {
    const auto asked = static_cast<double>(match.asked);
    const double learn = std::min(1.0, kLearn * asked);
    reliability_ += learn * (static_cast<double>(match.named) / asked - reliability_);
    best_child_ += learn * (static_cast<double>(match.first) / asked - best_child_);
  }
  if (pass.ms > 0) {
    const std::size_t leaves = std::max<std::size_t>(sent_.leaves(), 1);
    if (memory_.passes.known()) {
      memory_.hidden.observe(drafted_ms_, pass.ms - memory_.passes.ms(pass.rows, leaves));
    }
    memory_.passes.observe(pass.rows, leaves, pass.ms);
    if (!rests_) {
      memory_.payoff.on_tree(static_cast<double>(tokens.size()), drafted_ms_ + pass.ms,
                             verify_ms(0, 1));
    }
  }
  sent_ = {};
}

}  // namespace outrider
