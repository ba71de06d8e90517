// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/look_up_draft.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace outrider {
namespace {

// A single token that came before says little.
constexpr std::size_t kShortestMatch = 2;
constexpr std::size_t kGuesses = 2;  // for one position

// The last tokens of the text that ends with the node.
std::vector<TokenId> tail_of(const MirroredTree& tree, NodeIndex node) {
  std::vector<TokenId> tail;
  for (; node != kRoot && tail.size() < MatchFinder::kMaxLength; node = tree.node(node).parent) {
    tail.push_back(tree.node(node).token);
  }
  const std::size_t more = MatchFinder::kMaxLength - tail.size();
  const auto text = tree.text().last(std::min(more, tree.text().size()));
  tail.insert(tail.end(), text.rbegin(), text.rend());
  std::ranges::reverse(tail);
  return tail;
}

}  // namespace

LookUpDraft::LookUpDraft(Position end_position)
    : look_up_(static_cast<std::size_t>(std::max<Position>(end_position, 1)) + 1, kShortestMatch) {}

// The worth of matches is learnt from the prompt by itself, and from the answer beside the shared
// texts: a prompt repeats earlier ones more than an answer does.
void LookUpDraft::follow(std::span<const TokenId> text, const MatchFinder* shared) {
  if (!std::exchange(begun_, true)) return look_up_.begin(text);
  for (const TokenId token : text.subspan(look_up_.text().size())) look_up_.take(token, shared);
}

void LookUpDraft::grow(MirroredTree& tree, const RowBudget& budget, double least_chance,
                       const MatchFinder* shared) {
  const auto state = [&tree] { return std::tuple(tree.end(), tree.ids().last_id(), tree.size()); };
  if (grown_ == state()) return;
  follow(tree.text(), shared);

  struct Grown {
    double chance;
    NodeIndex node;
    bool operator<(const Grown& other) const { return chance < other.chance; }
  };
  std::priority_queue<Grown> frontier;  // whose children are still to be guessed
  frontier.push({1, kRoot});
  for (const RankedNode& one : rank_nodes(tree, budget)) {
    frontier.push({double{one.chance}, one.node});
  }
  std::size_t own = 0;
  while (!frontier.empty() && own < budget.nodes) {
    const Grown at = frontier.top();
    frontier.pop();
    const Position position = at.node == kRoot ? tree.end() : tree.node(at.node).position + 1;
    if (at.chance < least_chance) break;
    if (position > budget.last_position) continue;
    for (const Guess& guess : look_up_.guesses(tail_of(tree, at.node), kGuesses, shared)) {
      const double chance = at.chance * double{guess.confidence};
      if (chance < least_chance || own == budget.nodes) break;
      if (tree.child(at.node, guess.token) != kNoNode) continue;
      const NodeIndex node = tree.add(at.node, guess.token);
      tree.set_confidence(node, guess.confidence);
      frontier.push({chance, node});
      ++own;
    }
  }
  grown_ = state();
}

}  // namespace outrider
