// The tree as pre-draft cache: what exits advise, what is in flight, what is sent, found and
// forgotten. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/base/status.h"
#include "common/drafting/drafter.h"

namespace outrider {
namespace {

// Exits that one pass can name outcomes with; more come from no honest verifier.
constexpr std::size_t kMaxAdvice = 64;

}  // namespace

void Drafter::pass_started(NodeId last_id, std::span<const NodeId> left_out) {
  for (const NodeIndex index : tree_.nodes()) {
    const NodeId id = tree_.node(index).id;
    note(index).in_flight =
        id != 0 && id <= last_id && std::ranges::find(left_out, id) == left_out.end();
    note(index).was_in_flight |= note(index).in_flight;
  }
}

std::size_t Drafter::rows_in_flight() const {
  const auto in_flight = [&](NodeIndex index) { return note(index).in_flight; };
  return static_cast<std::size_t>(std::ranges::count_if(tree_.nodes(), in_flight));
}

std::vector<NodeIndex> Drafter::sent_unused() const {
  std::vector<NodeIndex> nodes;
  for (const NodeIndex index : tree_.nodes()) {
    if (tree_.node(index).id != 0 && !note(index).was_in_flight) nodes.push_back(index);
  }
  return nodes;
}

// Until the verifier says what its pass took, every node that it holds counts as a row of it.
void Drafter::mark_in_flight() {
  for (const NodeIndex index : tree_.nodes()) note(index).in_flight = tree_.node(index).id != 0;
}

void Drafter::advise(const Advice& advice) {
  if (advice_.size() >= kMaxAdvice) return;
  const bool is_new = tree_.child(advice.leaf, advice.token) == kNoNode;
  const NodeIndex node = add_node(advice.leaf, advice.token);
  if (is_new) note(node) = {};
  note(node).order = next_order_++;
  if (!note(node).exit) note(node).exit = advice.exit;
  note(node).advised = advice.probability;
  const auto probability = static_cast<float>(advice.probability);
  tree_.set_confidence(node, std::max(tree_.node(node).confidence, probability));
  advice_.push_back({node, advice.probability});
  keep_bound();
}

std::size_t Drafter::round_length(std::size_t most) const {
  return likeliest_chain(tree_, kRoot, most).size();
}

Grow Drafter::select_round(std::size_t length, std::size_t max_nodes, std::int32_t token_bound) {
  std::size_t room = max_nodes - std::min(max_nodes, tree_.ids().living().size());
  std::vector<NodeIndex> chosen;
  for (const NodeIndex index : likeliest_chain(tree_, kRoot, length)) {
    if (tree_.node(index).token >= token_bound) break;
    if (tree_.node(index).id != 0) continue;
    if (room-- == 0) break;
    chosen.push_back(index);
  }
  Grow grow = tree_.send(chosen);
  mark_in_flight();
  return grow;
}

std::vector<DraftedRound> Drafter::rounds_ahead(std::size_t length, std::int32_t token_bound) {
  weigh();
  std::vector<DraftedRound> rounds;
  for (const NodeIndex index : tree_.nodes()) {
    if (note(index).in_flight) continue;
    const NodeIndex parent = tree_.node(index).parent;
    if (parent != kRoot && !note(parent).in_flight) continue;
    DraftedRound round{.unsent = {}, .chance = view().weight(index), .length = 0};
    std::vector<NodeIndex> path{index};
    const std::vector<NodeIndex> chain = likeliest_chain(tree_, index, length);
    path.insert(path.end(), chain.begin(), chain.end());
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

CacheLookup Drafter::look_up(std::span<const TokenId> tokens) const {
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
  const std::vector<NodeIndex> chain = likeliest_chain(tree_, at, tree_.size());
  found.drafted = chain.size();
  found.sent_id = chain.empty() ? 0 : tree_.node(chain.front()).id;
  for (const NodeIndex node : step_rows_) {
    for (NodeIndex above = node; above >= 0; above = tree_.node(above).parent) {
      found.in_step |= above == at;
    }
  }
  return found;
}

// What may be forgotten: unsent leaves that no step works on. An exit's word keeps a node by its
// weight alone: a verifier that names many may not push the tree beyond its bound.
bool Drafter::evictable(NodeIndex index) const {
  const TreeNode& node = tree_.node(index);
  return node.id == 0 && node.children.empty() && row_of(index) < 0;
}

void Drafter::keep_bound() {
  if (tree_.size() <= options_.max_nodes) return;
  weigh();
  while (tree_.size() > options_.max_nodes) {
    NodeIndex least = kNoNode;
    for (const NodeIndex index : tree_.nodes()) {
      if (!evictable(index)) continue;
      if (least == kNoNode || view().weight(index) < view().weight(least)) least = index;
    }
    if (least == kNoNode) return;  // all are sent, or about to have children
    if (const Slot slot = tree_.node(least).slot; slot != kRootSlot) forgotten_.push_back(slot);
    std::erase_if(advice_, [&](const OutcomeAdvice& one) { return one.outcome == least; });
    tree_.remove_unsent(least);
    ++evicted_;
  }
}

}  // namespace outrider
