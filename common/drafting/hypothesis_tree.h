// The edge's mirrored token tree with what the edge notes of each node: how likely it is to become
// text, who expects it, whether the pass that runs verifies it.
//
//   restart (add_guesses | advise | send | on_pass_started | commit)*
//
// The part of the tree beyond the rows in flight is the pre-draft cache of FSD (section 3, steps 4
// to 6; docs/pre-draft-cache.md): look_up() finds what it holds for a verdict.
//
// Thread rule: none of its own; owned by the drafter. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/drafting/cache_lookup.h"
#include "common/drafting/growth_policy.h"
#include "common/drafting/outcome_weights.h"
#include "common/model/kv_slots.h"
#include "common/sampling/guess.h"
#include "common/sampling/guess_calibration.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

// A hypothesis as the sending rule sees it: an outcome of the pass in flight with its round.
struct DraftedRound {
  std::vector<NodeIndex> unsent;  // in sending order: the outcome and its chain, less what was sent
  double chance = 0;              // that the outcome comes
  std::size_t length = 0;         // nodes below the outcome, sent or not
  bool whole = false;             // drafting on would not make it longer
};

// An early exit expects the target's walk to end at `leaf` (kRoot or a living node), then `token`.
struct ExitAdvice {
  NodeIndex leaf = kRoot;
  TokenId token = 0;
  double probability = 0;  // of the whole outcome
  std::int32_t exit = 0;   // index into Opened.exits
};

class HypothesisTree final {
 public:
  // Begins a stream at this text: no nodes, ids from 1. What experience says of guesses is kept.
  void restart(std::span<const TokenId> committed);

  const MirroredTree& tree() const { return tree_; }
  // With every chance computed anew.
  GrowthView weighed();
  const NodeNote& note(NodeIndex node) const { return notes_[static_cast<std::size_t>(node)]; }

  // Makes the draft's guesses for what follows `parent` its children; guesses come best first.
  void add_guesses(NodeIndex parent, const std::vector<Guess>& guesses);
  // Makes the outcome's node if it is not there, and weighs it. Advice only: past the bound of one
  // pass it is dropped.
  void advise(const ExitAdvice& advice);
  void set_slot(NodeIndex node, Slot slot) { tree_.set_slot(node, slot); }

  // Sends these nodes, parents first.
  Grow send(std::span<const NodeIndex> nodes) { return tree_.send(nodes); }
  // Sends what is drafted of a round, less what was sent. The verifier holds at most max_nodes
  // living nodes; token_bound is the size of its vocabulary.
  Grow send_round(const RoundShape& shape, std::size_t max_nodes, std::int32_t token_bound);
  // Sends these nodes of a round, parents first, less what was sent; at most max_nodes live there.
  Grow send_planned(std::span<const NodeIndex> nodes, std::size_t max_nodes);
  // The rounds that could be sent for outcomes of the pass in flight, likeliest first.
  std::vector<DraftedRound> rounds_ahead(const ChainBounds& bounds, std::int32_t token_bound);

  // A pass took the living nodes with id <= last_id, less those left out.
  void on_pass_started(NodeId last_id, std::span<const NodeId> left_out);
  // Nodes that are rows of the pass in flight, as far as is known.
  std::size_t rows_in_flight() const;

  // What the cache holds for these tokens, of a round within these bounds; before commit().
  // step_rows: the nodes whose rows the draft step that is out runs.
  CacheLookup look_up(std::span<const TokenId> tokens, const ChainBounds& round,
                      std::span<const NodeIndex> step_rows) const;

  struct Committed {
    std::vector<TreeNode> accepted;  // of tokens [0, n)
    std::size_t sent_unused = 0;     // nodes that were sent, never were a row of a pass, and died
  };
  // Takes newly committed tokens: re-roots the tree and drops what died.
  Committed commit(std::span<const TokenId> tokens);

  // Forgets the least likely unsent leaves until at most max_nodes are left; nodes of step_rows
  // stay. Returns the draft's slots that they had. Sent nodes are never forgotten.
  std::vector<Slot> forget_beyond(std::size_t max_nodes, std::span<const NodeIndex> step_rows);
  // Nodes that were forgotten so far.
  std::uint64_t evicted() const { return evicted_; }

 private:
  NodeNote& note(NodeIndex node) { return notes_[static_cast<std::size_t>(node)]; }
  NodeIndex add(NodeIndex parent, TokenId token);
  void learn(std::span<const TokenId> tokens);
  void count_all_sent_as_in_flight();
  NodeIndex least_likely_leaf(std::span<const NodeIndex> step_rows) const;

  MirroredTree tree_{{}};
  GuessCalibration calibration_;
  std::vector<NodeNote> notes_;        // [tree_.index_limit()]
  std::vector<double> weights_;        // [tree_.index_limit()] as of the last weighed()
  std::vector<OutcomeAdvice> advice_;  // of the pass in flight
  std::uint32_t next_order_ = 0;
  std::uint64_t evicted_ = 0;
};

}  // namespace outrider
