// How likely each node of the edge's tree is to become text, and which rows of the draft are worth
// running next.
//
// Chances. While a pass runs, its verdict will say "the walk ends at node v, the next token is t".
// This is the same event as "node (v, t) becomes text". So outcomes need no list of their own: they
// are nodes, and their chances follow from the tree. Without news, a node's chance is the product
// of the confidences on its path. An early exit (FSD, section 3, step 3) names one outcome o and a
// probability p for the whole of it. The chances then follow by Jeffrey's rule: o gets p, and
// within "o" and within "not o" all proportions stay:
//
//   w'(a) = p * w(a and o) / w(o)  +  (1 - p) * (w(a) - w(a and o)) / (1 - w(o))
//
//   text - a(.8) - b(.5)    an exit says: the walk ends at a, then c, chance .9
//              \ c(.2)      w: a .80 -> .98   c .16 -> .90   b .40 -> .05
//
// Growth. A policy gives each node a worth; the drafter has one growth queue, ordered by worth.
// Chains, drafting ahead, width-adaptive trees and gain-cost trees differ in the worth alone, and
// stop where no node is worth anything.
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "common/base/enum_names.h"
#include "common/decoding/tree/mirrored_tree.h"

namespace outrider {

// --- chances ------------------------------------------------------------------------------------

// An early exit of the target expects this node to become text. It saw more than the draft did.
struct OutcomeAdvice {
  NodeIndex outcome = kNoNode;  // living
  double probability = 0;       // of the whole outcome; 0..1
};

// The likeliest child, the earlier one of equals; kNoNode without children.
NodeIndex likeliest_child(const MirroredTree& tree, NodeIndex parent);

// The `count` likeliest children, likeliest first; fewer if there are fewer.
std::vector<NodeIndex> likeliest_children(const MirroredTree& tree, NodeIndex parent,
                                          std::size_t count);

// A path of likeliest children.
struct LikeliestChain {
  std::vector<NodeIndex> nodes;
  bool whole = false;  // it ends at the bounds that were asked for, not where drafting stopped
};

// How far a chain goes: at most `most` nodes, while the chance that all of them are accepted is at
// least `least_chance`. The first node always belongs to it.
struct ChainBounds {
  std::size_t most = 0;
  double least_chance = 0;
};

// The likeliest chain below `from`.
LikeliestChain likeliest_chain(const MirroredTree& tree, NodeIndex from, const ChainBounds& bounds);
// The likeliest chain that begins with `first`.
LikeliestChain likeliest_chain_from(const MirroredTree& tree, NodeIndex first,
                                    const ChainBounds& bounds);

// weights[node]: the chance of every living node, [tree.index_limit()]; 0 for other indices. Advice
// is applied in its order.
void weigh_outcomes(const MirroredTree& tree, std::span<const OutcomeAdvice> advice,
                    std::vector<double>& weights);

// --- growth -------------------------------------------------------------------------------------

// Depth of a living node: 1 for the root's children.
inline Position depth_of(const MirroredTree& tree, NodeIndex node) {
  return tree.node(node).position - tree.end() + 1;
}

// The drafter's notes on a node.
struct NodeNote {
  std::uint32_t order = 0;  // of creation; renewed when an exit names the node
  std::uint8_t rank = 0;    // among the guesses for its position; 0: the best
  float guessed = -1;       // the draft's own confidence; < 0: the draft never guessed it
  std::optional<std::int32_t> exit = {};  // the first exit that named it (index into Opened.exits)
  double advised = 0;                     // the last confidence that an exit gave it; 0: none
  bool in_flight = false;                 // a row of the pass that runs, as far as is known
  bool was_in_flight = false;             // a row of an earlier pass
};

struct GrowthView {
  const MirroredTree& tree;
  std::span<const NodeNote> notes;  // [tree.index_limit()]
  std::span<const double> weights;  // [tree.index_limit()]: the chance to become text

  const NodeNote& note(NodeIndex node) const { return notes[static_cast<std::size_t>(node)]; }
  double weight(NodeIndex node) const { return weights[static_cast<std::size_t>(node)]; }
};

// Where a node is below the rows in flight.
struct Hypothesis {
  NodeIndex outcome = kNoNode;  // the first node on the path that is not in flight
  int rows = 0;                 // nodes from there to the node itself; 0: it is in flight
};

Hypothesis hypothesis_of(const GrowthView& view, NodeIndex node);

class GrowthPolicy {
 public:
  virtual ~GrowthPolicy() = default;

  // How many children a node gets when the draft runs its row, best first. At least 1.
  virtual int fan_out() const = 0;

  // The most rows that one step runs. At least 1.
  virtual std::size_t most_rows() const { return std::numeric_limits<std::size_t>::max(); }

  // Whether to run the root's row while its children are not known.
  virtual bool wants_root() const = 0;

  // The worth of running this living node's row now; the highest is run first. 0: not wanted.
  virtual double worth(const GrowthView& view, NodeIndex node) const = 0;
};

// A round: what the verifier verifies in one pass. The `branches` likeliest tokens at the root,
// each followed by its likeliest chain, `length` tokens deep in all. One branch is the chain of
// plain speculative decoding.
struct RoundShape {
  std::size_t length = 0;
  std::size_t branches = 1;
  // A branch ends before the token with which the chance that all of it is accepted falls below
  // this: that row would cost more than it wins. Its first token always belongs to it.
  double least_chance = 0;

  ChainBounds bounds() const { return {.most = length, .least_chance = least_chance}; }
};

// The drafted part of a round's chains, likeliest first.
std::vector<LikeliestChain> round_chains(const MirroredTree& tree, const RoundShape& shape);

// Drafts a round (FSD section 3, step 1: the best child, gamma times; once for each branch).
class RoundPolicy final : public GrowthPolicy {
 public:
  // fan_out: guesses per row; raised to the number of branches.
  explicit RoundPolicy(const RoundShape& shape, int fan_out = 1);

  int fan_out() const override { return fan_out_; }
  bool wants_root() const override { return shape_.length > 0; }
  double worth(const GrowthView& view, NodeIndex node) const override;

 private:
  const RoundShape shape_;
  const int fan_out_;
};

// In what order hypotheses are pre-drafted (FSD section 4.3, table 7).
enum class QueueOrder : std::uint8_t { kPriority, kFifo, kRandom };

template <>
inline constexpr auto enum_names<QueueOrder> =
    std::to_array<EnumName<QueueOrder>>({{QueueOrder::kPriority, "priority"},
                                         {QueueOrder::kFifo, "fifo"},
                                         {QueueOrder::kRandom, "random"}});

// Next tokens considered at each position of what is drafted ahead. At the device speeds of FSD's
// tables, 4 was better than 3 by 1 to 3 %, and as good as 5, which sends more
// (bench/lab/rivals.md).
inline constexpr int kFanOut = 4;

struct PredraftOptions {
  int gamma = 4;  // drafted tokens of a round
  int fan_out = kFanOut;
  QueueOrder order = QueueOrder::kPriority;
  // true (FSD): only outcomes that an exit named, one whole chain each, ordered by the exit's
  // confidence. false: every node, ordered by its chance to become text.
  bool exits_only = false;
  // The draft steps that the first drafted token of a round saves beyond its own: with it the
  // verifier does not wait for the edge.
  double first_saves = 1;
  // The most rows of one draft step. With 1, each row is chosen knowing the result of the last one,
  // and a verdict waits for at most one row.
  std::size_t most_rows = std::numeric_limits<std::size_t>::max();
};

// Drafts ahead, for possible outcomes, while a verdict is awaited.
class PredraftPolicy final : public GrowthPolicy {
 public:
  explicit PredraftPolicy(const PredraftOptions& options) : options_(options) {}

  int fan_out() const override { return options_.fan_out; }
  std::size_t most_rows() const override { return options_.most_rows; }
  bool wants_root() const override { return !options_.exits_only; }
  double worth(const GrowthView& view, NodeIndex node) const override;

 private:
  double worth_named(const GrowthView& view, NodeIndex node, const Hypothesis& at) const;
  double worth_any(const GrowthView& view, NodeIndex node, const Hypothesis& at) const;
  double ordered(double priority, const NodeNote& note) const;

  const PredraftOptions options_;
};

}  // namespace outrider
