// The edge's copy of the mirrored token tree, with the edge's notes on each node: how likely it is
// to become text, which exit expects it, and whether it is in flight, that is, a row of the pass
// that runs.
//
//   restart (add_guesses | advise | send | on_pass_started | commit)*
//
// The part of the tree below the rows in flight is FSD's pre-draft cache (section 3, steps 4 to 6;
// docs/pre-draft-cache.md). look_up() finds what it holds for a verdict.
//
// Thread rule: none of its own; owned by the drafter. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/decoding/drafting/growth_policy.h"
#include "common/decoding/tree/mirrored_tree.h"
#include "common/engine/model/kv_slots.h"
#include "common/engine/sampling/guess.h"

namespace outrider {

// A possible outcome of the pass in flight with the round that is drafted for it.
struct DraftedRound {
  std::vector<NodeIndex> unsent;  // in sending order: the unsent nodes of the outcome and its chain
  double chance = 0;              // that the outcome comes
  std::size_t length = 0;         // nodes below the outcome, sent or not
  bool whole = false;             // more drafting would not make it longer
};

// The content of the pre-draft cache when a verdict came (docs/pre-draft-cache.md).
struct CacheLookup {
  std::size_t walked = 0;   // tokens of the verdict that are nodes
  bool named = false;       // all of them are
  std::size_t drafted = 0;  // nodes of the next round that are there
  bool whole = false;       // all of it is
  bool in_step = false;     // the draft step that is out runs a row on or below the path
  NodeId sent_id = 0;       // of that round's first node; 0: it was not sent
  std::optional<std::int32_t> exit = {};  // the first exit that named this outcome
  double own_chance = 0;   // the draft's own guess of its last token; 0: it never guessed it
  bool runner_up = false;  // the draft guessed that token, but not as its best guess

  // Drafted tokens of that round. If it is not whole, nobody knows yet how long it will be: the
  // usual length is taken, but more than is there.
  std::size_t length(std::size_t usual, std::size_t longest) const {
    return std::min(longest, whole ? drafted : std::max(usual, drafted + 1));
  }
};

// An early exit expects the target's walk to end at `leaf` (kRoot or a living node), then `token`.
struct ExitAdvice {
  NodeIndex leaf = kRoot;
  std::vector<TokenId> path = {};  // between them, along nodes of the verifier's own
  TokenId token = 0;
  double probability = 0;  // of the whole outcome
  std::int32_t exit = 0;   // index into Opened.exits
};

class HypothesisTree final {
 public:
  // A new stream begins at this text: no nodes, ids from 1. The calibration of guesses is kept.
  void restart(std::span<const TokenId> committed);

  const MirroredTree& tree() const { return tree_; }
  // Computes every chance again.
  GrowthView weighed();
  const NodeNote& note(NodeIndex node) const { return notes_[static_cast<std::size_t>(node)]; }

  // Adds the draft's guesses for what follows `parent` as its children, best first.
  void add_guesses(NodeIndex parent, const std::vector<Guess>& guesses);
  // Adds the outcome's node if it is not there, and raises its chance. What one pass may advise is
  // bounded; the rest is ignored.
  void advise(const ExitAdvice& advice);
  void set_slot(NodeIndex node, Slot slot) { tree_.set_slot(node, slot); }

  // Sends these nodes, parents first.
  Grow send(std::span<const NodeIndex> nodes) { return tree_.send(nodes); }
  // Sends the drafted nodes of a round that were not sent yet. The verifier holds at most max_nodes
  // living nodes; token_bound is the size of its vocabulary.
  Grow send_round(const RoundShape& shape, std::size_t max_nodes, std::int32_t token_bound);
  // Sends those of these nodes that were not sent yet, parents first, so that at most max_nodes
  // live at the verifier.
  Grow send_planned(std::span<const NodeIndex> nodes, std::size_t max_nodes);
  // The rounds that could be sent for possible outcomes of the pass in flight, likeliest first.
  std::vector<DraftedRound> rounds_ahead(const ChainBounds& bounds, std::int32_t token_bound);

  // A pass took the living nodes with id <= last_id, less those left out.
  void on_pass_started(NodeId last_id, std::span<const NodeId> left_out);
  // Nodes that are rows of the pass in flight, as far as is known.
  std::size_t rows_in_flight() const;

  // The nodes that the pre-draft cache holds for these tokens, for a round within these bounds.
  // Call before commit(). step_rows: the nodes whose rows the draft step that is out runs.
  CacheLookup look_up(std::span<const TokenId> tokens, const ChainBounds& round,
                      std::span<const NodeIndex> step_rows) const;

  struct Committed {
    std::vector<TreeNode> accepted;  // of tokens [0, n)
    std::size_t sent_unused = 0;     // nodes that died, were sent, and never were a row of a pass
  };
  // Takes newly committed tokens: re-roots the tree and removes what died.
  Committed commit(std::span<const TokenId> tokens);

  // Evicts the least likely unsent leaves until at most max_nodes nodes are left; nodes of
  // step_rows stay, and so do sent ones. Returns the slots that the evicted nodes had.
  std::vector<Slot> evict_beyond(std::size_t max_nodes, std::span<const NodeIndex> step_rows);
  // Nodes that were evicted so far.
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
