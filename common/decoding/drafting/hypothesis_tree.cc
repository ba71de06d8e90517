// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/hypothesis_tree.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

// How many outcomes the exits of one pass can name; an honest verifier sends no more.
constexpr std::size_t kMaxAdvice = 64;

}  // namespace

void HypothesisTree::restart(std::span<const TokenId> committed) {
  tree_ = MirroredTree(std::vector<TokenId>(committed.begin(), committed.end()));
  notes_.clear();
  advice_.clear();
}

GrowthView HypothesisTree::weighed() {
  weigh_outcomes(tree_, advice_, weights_);
  return {tree_, notes_, weights_};
}

NodeIndex HypothesisTree::add(NodeIndex parent, TokenId token) {
  const NodeIndex node = tree_.add(parent, token);
  notes_.resize(tree_.index_limit());
  return node;
}

void HypothesisTree::add_guesses(NodeIndex parent, const std::vector<Guess>& guesses) {
  float better = 1;  // experience never puts a guess before one of a better rank
  for (std::size_t rank = 0; rank < guesses.size(); ++rank) {
    const bool is_new = tree_.child(parent, guesses[rank].token) == kNoNode;
    const NodeIndex node = add(parent, guesses[rank].token);
    if (is_new) note(node) = {.order = next_order_++};
    note(node).rank = static_cast<std::uint8_t>(rank);
    note(node).guessed = guesses[rank].confidence;
    better = std::min(better, calibration_.right(rank, guesses[rank].confidence));
    tree_.set_confidence(node, std::max(tree_.node(node).confidence, better));
  }
}

void HypothesisTree::advise(const ExitAdvice& advice) {
  if (advice_.size() >= kMaxAdvice) return;
  NodeIndex node = advice.leaf;
  const auto go_on = [&](TokenId token) {
    const bool is_new = tree_.child(node, token) == kNoNode;
    node = add(node, token);
    if (is_new) note(node) = {};
    note(node).order = next_order_++;
    if (!note(node).exit) note(node).exit = advice.exit;
    note(node).advised = advice.probability;
    const auto probability = static_cast<float>(advice.probability);
    tree_.set_confidence(node, std::max(tree_.node(node).confidence, probability));
  };
  for (const TokenId token : advice.path) go_on(token);
  go_on(advice.token);
  advice_.push_back({node, advice.probability});
}

Grow HypothesisTree::send_round(const RoundShape& shape, std::size_t max_nodes,
                                std::int32_t token_bound) {
  std::vector<NodeIndex> nodes;
  for (const LikeliestChain& chain : round_chains(tree_, shape)) {
    for (const NodeIndex index : chain.nodes) {
      if (tree_.node(index).token >= token_bound) break;
      nodes.push_back(index);
    }
  }
  return send_planned(nodes, max_nodes);
}

Grow HypothesisTree::send_planned(std::span<const NodeIndex> nodes, std::size_t max_nodes) {
  std::size_t room = max_nodes - std::min(max_nodes, tree_.ids().living().size());
  std::vector<NodeIndex> chosen;
  for (const NodeIndex index : nodes) {
    if (tree_.node(index).id != 0) continue;
    if (room == 0) break;
    --room;
    chosen.push_back(index);
  }
  Grow grow = tree_.send(chosen);
  count_all_sent_as_in_flight();
  return grow;
}

std::vector<DraftedRound> HypothesisTree::rounds_ahead(const ChainBounds& bounds,
                                                       std::int32_t token_bound) {
  const GrowthView view = weighed();
  std::vector<DraftedRound> rounds;
  for (const NodeIndex index : tree_.nodes()) {
    if (note(index).in_flight) continue;
    const NodeIndex parent = tree_.node(index).parent;
    if (parent != kRoot && !note(parent).in_flight) continue;
    const LikeliestChain chain = likeliest_chain(tree_, index, bounds);
    DraftedRound round{
        .unsent = {}, .chance = view.weight(index), .length = 0, .whole = chain.whole};
    std::vector<NodeIndex> path{index};
    path.insert(path.end(), chain.nodes.begin(), chain.nodes.end());
    for (const NodeIndex at : path) {
      if (tree_.node(at).token >= token_bound) break;
      if (at != index) ++round.length;
      if (tree_.node(at).id == 0) round.unsent.push_back(at);
    }
    if (round.length > 0 && !round.unsent.empty()) rounds.push_back(std::move(round));
  }
  std::ranges::stable_sort(rounds, std::ranges::greater{}, &DraftedRound::chance);
  return rounds;
}

void HypothesisTree::on_pass_started(NodeId last_id, std::span<const NodeId> left_out) {
  for (const NodeIndex index : tree_.nodes()) {
    const NodeId id = tree_.node(index).id;
    note(index).in_flight =
        id != 0 && id <= last_id && std::ranges::find(left_out, id) == left_out.end();
    note(index).was_in_flight |= note(index).in_flight;
  }
}

// Until the verifier says what its pass took, every node that it holds counts as a row of it.
void HypothesisTree::count_all_sent_as_in_flight() {
  for (const NodeIndex index : tree_.nodes()) note(index).in_flight = tree_.node(index).id != 0;
}

std::size_t HypothesisTree::rows_in_flight() const {
  const auto in_flight = [&](NodeIndex index) { return note(index).in_flight; };
  return static_cast<std::size_t>(std::ranges::count_if(tree_.nodes(), in_flight));
}

CacheLookup HypothesisTree::look_up(std::span<const TokenId> tokens, const ChainBounds& round,
                                    std::span<const NodeIndex> step_rows) const {
  CacheLookup found;
  NodeIndex at = kRoot;
  for (const TokenId token : tokens) {
    const NodeIndex next = tree_.child(at, token);
    if (next == kNoNode) return found;
    at = next;
    ++found.walked;
  }
  found.named = true;
  found.exit = note(at).exit;
  found.own_chance = std::max(0.0, static_cast<double>(note(at).guessed));
  found.runner_up = note(at).guessed >= 0 && note(at).rank > 0;
  const LikeliestChain chain = likeliest_chain(tree_, at, round);
  found.drafted = chain.nodes.size();
  found.whole = chain.whole;
  found.sent_id = chain.nodes.empty() ? 0 : tree_.node(chain.nodes.front()).id;
  for (const NodeIndex node : step_rows) {
    for (NodeIndex above = node; above >= 0; above = tree_.node(above).parent) {
      found.in_step |= above == at;
    }
  }
  return found;
}

// The committed text shows how good the guesses for its positions were.
void HypothesisTree::learn(std::span<const TokenId> tokens) {
  NodeIndex at = kRoot;
  for (const TokenId token : tokens) {
    for (const NodeIndex child : tree_.children(at)) {
      const NodeNote& guess = note(child);
      if (guess.guessed < 0) continue;
      calibration_.observe(guess.rank, guess.guessed, tree_.node(child).token == token);
    }
    at = tree_.child(at, token);
    if (at == kNoNode) return;
  }
}

HypothesisTree::Committed HypothesisTree::commit(std::span<const TokenId> tokens) {
  learn(tokens);
  std::vector<NodeIndex> unused;
  for (const NodeIndex index : tree_.nodes()) {
    if (tree_.node(index).id != 0 && !note(index).was_in_flight) unused.push_back(index);
  }
  NodeIndex at = kRoot;
  for (const TokenId token : tokens) {
    if (at != kNoNode) at = tree_.child(at, token);
    std::erase(unused, at);
  }
  Committed committed{.accepted = tree_.commit(tokens)};
  advice_.clear();
  std::erase_if(unused, [&](NodeIndex node) { return tree_.contains(node); });
  committed.sent_unused = unused.size();
  count_all_sent_as_in_flight();
  return committed;
}

// An exit's advice keeps a node by its weight alone: a verifier that names many outcomes may not
// push the tree beyond its bound.
NodeIndex HypothesisTree::least_likely_leaf(std::span<const NodeIndex> step_rows) const {
  NodeIndex least = kNoNode;
  for (const NodeIndex index : tree_.nodes()) {
    const TreeNode& node = tree_.node(index);
    if (node.id != 0 || !node.children.empty()) continue;
    if (std::ranges::find(step_rows, index) != step_rows.end()) continue;
    const auto weight = [&](NodeIndex one) { return weights_[static_cast<std::size_t>(one)]; };
    if (least == kNoNode || weight(index) < weight(least)) least = index;
  }
  return least;
}

std::vector<Slot> HypothesisTree::evict_beyond(std::size_t max_nodes,
                                               std::span<const NodeIndex> step_rows) {
  std::vector<Slot> slots;
  if (tree_.size() <= max_nodes) return slots;
  weighed();
  while (tree_.size() > max_nodes) {
    const NodeIndex least = least_likely_leaf(step_rows);
    if (least == kNoNode) break;  // all others are sent, or about to have children
    if (const Slot slot = tree_.node(least).slot; slot != kRootSlot) slots.push_back(slot);
    std::erase_if(advice_, [&](const OutcomeAdvice& one) { return one.outcome == least; });
    tree_.remove_unsent(least);
    ++evicted_;
  }
  return slots;
}

}  // namespace outrider
