// What to draft next, as a policy: a worth for every node whose row could be run. The drafter has
// one growth queue; chains, pre-drafting, width-adaptive trees and gain/cost trees (DESIGN section
// 2, the table) differ in nothing but the worth, and stop where nothing is worth anything.
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
#include "common/drafting/outcome_weights.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

// Depth of a living node: 1 for the root's children.
inline Position depth_of(const MirroredTree& tree, NodeIndex node) {
  return tree.node(node).position - tree.end() + 1;
}

// What the drafter knows of a node beyond the tree's own fields.
struct NodeNote {
  std::uint32_t order = 0;  // of appearance; an exit that names the node renews it
  std::uint8_t rank = 0;    // among the guesses for its position; the best: 0
  float guessed = -1;       // the draft's own confidence; < 0: the draft never guessed it
  std::optional<std::int32_t> exit = {};  // the first exit that named it (index into Opened.exits)
  double advised = 0;                     // the last confidence that an exit gave it; 0: none
  bool in_flight = false;                 // a row of the pass in work, as far as is known
  bool was_in_flight = false;             // a row of an earlier pass
};

struct GrowthView {
  const MirroredTree& tree;
  std::span<const NodeNote> notes;  // [tree.index_limit()]
  std::span<const double> weights;  // [tree.index_limit()]: the chance to become text

  const NodeNote& note(NodeIndex node) const { return notes[static_cast<std::size_t>(node)]; }
  double weight(NodeIndex node) const { return weights[static_cast<std::size_t>(node)]; }
};

// Where a node stands below the rows in flight.
struct Hypothesis {
  NodeIndex outcome = kNoNode;  // the first node on the path that is not in flight
  int rows = 0;                 // nodes from there to the node itself; 0: it is in flight
};

Hypothesis hypothesis_of(const GrowthView& view, NodeIndex node);

class GrowthPolicy {
 public:
  virtual ~GrowthPolicy() = default;

  // How many children a node gets when its row is run, best first. At least 1.
  virtual int fan_out() const = 0;

  // How many rows one step may run at the most. At least 1.
  virtual std::size_t most_rows() const { return std::numeric_limits<std::size_t>::max(); }

  // Whether the root's row is to be run when its children are not known.
  virtual bool wants_root() const = 0;

  // Worth of running this living node's row now; the highest goes first. 0: not wanted.
  virtual double worth(const GrowthView& view, NodeIndex node) const = 0;
};

// A round: what the verifier gets to verify in one pass. The `branches` likeliest tokens at the
// root, each followed by its likeliest chain, `length` tokens deep in all. One branch is the chain
// of plain speculative decoding.
struct RoundShape {
  std::size_t length = 0;
  std::size_t branches = 1;
  // A branch ends before the token with which all of it would stand less often than this: that row
  // would cost more than it wins. Its first token always goes along.
  double least_chance = 0;

  ChainBounds bounds() const { return {.most = length, .least_chance = least_chance}; }
};

// The chains of a round as far as they are drafted, likeliest first.
std::vector<LikeliestChain> round_chains(const MirroredTree& tree, const RoundShape& shape);

// Drafts a round (FSD section 3, step 1: the best child, gamma times; once for each branch).
class RoundPolicy final : public GrowthPolicy {
 public:
  // fan_out: guesses per row; at least as many as there are branches are asked for.
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

// Next tokens considered at each position of what is drafted ahead. At the paces of FSD's tables, 4
// was better than 3 by 1 to 3 %, and as good as 5, which sends more (docs/rivals.md).
inline constexpr int kFanOut = 4;

struct PredraftOptions {
  int gamma = 4;  // drafted tokens of a round
  int fan_out = kFanOut;
  QueueOrder order = QueueOrder::kPriority;
  // FSD: only outcomes that an exit named, one whole chain each, in the order of the exit's own
  // confidence. Else: every node by its chance to become text, exits' and own guesses together.
  bool exits_only = false;
  // What the first drafted token of a round saves beyond its own draft step, in draft steps: with
  // it the verifier need not wait for the edge.
  double first_saves = 1;
  // Of a step. One: the next is chosen knowing what the last one brought, and the verdict waits for
  // no more than one.
  std::size_t most_rows = std::numeric_limits<std::size_t>::max();
};

// Drafts ahead while a verdict is awaited, for outcomes that may come.
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
