// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/trees/gain_cost_tree.h"

#include <algorithm>

namespace outrider {
namespace {

// The weight of one verdict in what is learnt.
constexpr double kLearn = 0.05;

// Draft steps run one row until the tree has so many nodes (LEVER, section 4.4: batches come as
// candidates do).
constexpr std::size_t kSerialNodes = 4;

// The cost of a row that reading hides: it may be computed for nothing.
constexpr double kMinRow = 0.1;

}  // namespace

struct GainCostTree::Growth {
  RoundPlan plan = {};
  std::vector<Move> frontier = {};
  std::vector<char> has_child = {};  // by family: its parent is no leaf of the plan any more
  std::size_t leaves = 1;
  double gain = 1;     // G(T)
  double draft = 0;    // of C(T)
  double drafted = 0;  // for this round, hidden or not
};

// The weight of a move's gain: 1 / dC(T), the same for all moves that do the same.
struct GainCostTree::Costs {
  double cycle = 0;          // C(T), ms
  double to_run = 0;         // a row, and to verify the child that it names
  double to_add[2][2] = {};  // a node: [it makes a leaf more][it pays for its row]

  // b(v) / dC(v | T).
  double ratio(const Move& move, bool branches) const {
    return move.gain * (move.runs_row ? to_run : to_add[branches ? 1 : 0][move.pays_row ? 1 : 0]);
  }
};

bool GainCostTree::is_kept(NodeIndex node) const {
  return std::ranges::binary_search(kept_, node);
}

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
  const std::size_t family = growth.has_child.size();
  growth.has_child.push_back(0);
  for (const NodeIndex child : candidates) {
    const bool pays = !options_.separate_rows && view.can_expand(child) && !is_kept(child);
    growth.frontier.push_back({.node = child,
                               .gain = reach(view, child, reached, mass),
                               .pays_row = pays,
                               .family = family});
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

GainCostTree::Costs GainCostTree::costs(const Growth& growth) const {
  const std::size_t nodes = growth.plan.nodes.size();
  const double now = verify_ms(nodes, growth.leaves);
  const double row = draft_row_ms(growth);
  Costs costs{.cycle = growth.draft + now};
  const double least = options_.least_cost * costs.cycle;
  const double node = std::max(least, verify_ms(nodes + 1, growth.leaves) - now);
  const double branch = std::max(least, verify_ms(nodes + 1, growth.leaves + 1) - now);
  costs.to_run = best_child_ / (node + row);
  costs.to_add[0][0] = 1 / node;
  costs.to_add[0][1] = 1 / (node + row);
  costs.to_add[1][0] = 1 / branch;
  costs.to_add[1][1] = 1 / (branch + row);
  return costs;
}

void GainCostTree::add(const PlanView& view, const Move& move, Growth& growth) const {
  if (growth.has_child[move.family] != 0) ++growth.leaves;
  growth.has_child[move.family] = 1;
  growth.plan.nodes.push_back(move.node);
  growth.gain += move.gain;
  if (view.is_expanded(move.node)) {
    if (!is_kept(move.node)) spend_row(growth);
    open(view, move.node, move.gain, growth);
  } else if (view.can_expand(move.node)) {
    if (options_.separate_rows) {
      growth.frontier.push_back({.node = move.node, .gain = move.gain, .runs_row = true});
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
  if (!is_kept(kRoot)) spend_row(growth);
  open(view, kRoot, 1, growth);
  std::size_t most = std::min(options_.max_nodes, view.limits().max_nodes);
  if (memory_.passes.rows_seen() < 2) most = std::min(most, options_.first_nodes);
  while (growth.plan.nodes.size() < most && !growth.frontier.empty()) {
    // Where nothing is known, costs are taken to be the same.
    const bool known = memory_.passes.rows_seen() >= 2;
    const Costs now = known ? costs(growth) : Costs{};
    auto best = growth.frontier.begin();
    double best_ratio = 0;
    for (auto it = best; it != growth.frontier.end(); ++it) {
      const double value = known ? now.ratio(*it, growth.has_child[it->family] != 0) : it->gain;
      if (value <= best_ratio) continue;
      best = it;
      best_ratio = value;
    }
    if (best_ratio <= 0 || (known && best_ratio <= growth.gain / now.cycle)) break;
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
  if (view.is_expanded(kRoot)) kept_.push_back(kRoot);
  for (const NodeIndex node : view.nodes()) {
    if (view.is_expanded(node)) kept_.push_back(node);
  }
  std::ranges::sort(kept_);
  // The two ends first: what one row costs, and then what a tree does.
  rests_ = !memory_.passes.known() || (options_.separate_rows && !memory_.payoff.begin_round());
}

void GainCostTree::on_sent(const RoundPlan& plan, const PlanView& view) {
  sent_ = SentRound(plan, view);
  in_round_ = false;
  drafted_ms_ = 0;
  if (view.is_expanded(kRoot) && !is_kept(kRoot)) drafted_ms_ += draft_ms_(1);
  for (const NodeIndex node : plan.nodes) {
    if (view.is_expanded(node) && !is_kept(node)) drafted_ms_ += draft_ms_(1);
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
  if (pass.ms > 0 && pass.rows > 0) {  // no rows: the pass over the prompt
    const std::size_t leaves = std::max<std::size_t>(sent_.leaves(), 1);
    if (memory_.passes.known()) {
      memory_.hidden.observe(drafted_ms_, pass.ms - memory_.passes.ms(pass.rows, leaves));
    }
    memory_.passes.observe(pass.rows, leaves, pass.ms);
    const double cycle = pass.cycle_ms > 0 ? pass.cycle_ms : drafted_ms_ + pass.ms;
    if (rests_) {
      memory_.payoff.on_plain(cycle);
    } else {
      memory_.payoff.on_tree(static_cast<double>(tokens.size()), cycle, verify_ms(0, 1));
    }
  }
  sent_ = {};
}

}  // namespace outrider
