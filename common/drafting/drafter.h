// The drafting brain: the edge's mirrored token tree (common/tree) and three verbs on it.
//
//   restart (grow finish_step | select | advise | pass_started | commit)*
//
// grow() says which rows of the draft model to run next, select_*() which nodes to send, commit()
// takes a verdict. What to grow is the policy's word; the model itself runs elsewhere
// (draft_engine.h), one step at a time, so this class is pure (DESIGN L4). The draft guesses with
// the target's noise (L1): a step's guesses come ranked by perturbed score.
//
// The part of the tree beyond the rows in flight is the pre-draft cache of FSD (section 3, steps 4
// to 6; docs/pre-draft-cache.md): what grows there for an outcome that comes is the next round.
//
// Bounds: at most DrafterOptions::max_nodes nodes, so at most as many tree slots of the draft's KV
// cache; the least likely unsent ones are forgotten first. A living node that was sent never is.
//
// Thread rule: none of its own; used by the event thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/drafting/draft_step.h"
#include "common/drafting/draft_text.h"
#include "common/drafting/growth_policy.h"
#include "common/drafting/outcome_weights.h"
#include "common/sampling/guess_calibration.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

struct DrafterOptions {
  Position max_positions = 0;   // the draft's context: it guesses positions <= this
  std::int32_t vocab_size = 0;  // the draft's
  int prefill_chunk = 64;       // rows of one catch-up step: a cancel waits no longer than that
  int workers = 1;              // hypotheses that one step serves at once
  std::size_t max_nodes = 256;  // the tree's bound, sent nodes included; more than one Grow holds
};

// What the pre-draft cache holds for a verdict.
struct CacheLookup {
  std::size_t walked = 0;                 // tokens of the verdict that are nodes
  bool named = false;                     // all of them are
  std::size_t drafted = 0;                // nodes of the next round that are there
  bool in_step = false;                   // the step that is out runs a row of the path or under it
  NodeId sent_id = 0;                     // of that round's first node; 0: it was not sent
  std::optional<std::int32_t> exit = {};  // the first exit that named this outcome
  double own_chance = 0;   // the draft's own guess of its last token; 0: it never guessed it
  bool runner_up = false;  // .. and not as the likeliest
};

// A hypothesis as the sending rule sees it: an outcome of the pass in flight with its round.
struct DraftedRound {
  std::vector<NodeIndex> unsent;  // in sending order: the outcome and its chain, less what was sent
  double chance = 0;              // that the outcome comes
  std::size_t length = 0;         // nodes below the outcome, sent or not
};

class Drafter final {
 public:
  explicit Drafter(const DrafterOptions& options);

  // Begins a stream at this text: no nodes, ids from 1. The KV of the longest common prefix with
  // the text before is kept.
  void restart(std::span<const TokenId> committed);

  // The next step for the draft model, or nothing: a step is out, nothing is worth a row to the
  // policy, or the draft can go no further. max_depth: as deep as nodes can be of use.
  std::optional<DraftStep> grow(const GrowthPolicy& policy, Position max_depth);

  // The step given last is done.
  void finish_step(const DraftStepDone& done);
  bool step_is_out() const { return step_is_out_; }
  // The step that is out runs rows of dead nodes only.
  bool step_is_obsolete() const;

  // Sends the likeliest chain under the root, at most `length` nodes deep, less what was sent. The
  // verifier holds at most max_nodes living ones; token_bound is its vocabulary.
  Grow select_round(std::size_t length, std::size_t max_nodes, std::int32_t token_bound);
  // The rounds that could be sent for outcomes of the pass in flight, likeliest first; `length`:
  // of a whole round.
  std::vector<DraftedRound> rounds_ahead(std::size_t length, std::int32_t token_bound);
  // Sends these nodes, parents first.
  Grow select(std::span<const NodeIndex> nodes) { return tree_.send(nodes); }

  // The length of the likeliest chain under the root.
  std::size_t round_length(std::size_t most) const;

  // A pass took the living nodes with id <= last_id, less those left out.
  void pass_started(NodeId last_id, std::span<const NodeId> left_out);

  // An exit expects the walk to end at `leaf` (kRoot or a living node), then `token`. Advice only:
  // it makes the node if it is not there, and weighs it. Past the bound of one pass: dropped.
  struct Advice {
    NodeIndex leaf = kRoot;
    TokenId token = 0;
    double probability = 0;  // of the whole outcome
    std::int32_t exit = 0;
  };
  void advise(const Advice& advice);

  // What the cache holds for these tokens; before commit().
  CacheLookup look_up(std::span<const TokenId> tokens) const;
  // Takes newly committed tokens, at least one: re-roots the tree, frees what died. Returns how
  // many sent nodes died that no pass ever took.
  std::size_t commit(std::span<const TokenId> tokens);

  // Rows of the pass in flight that are nodes, as far as is known.
  std::size_t rows_in_flight() const;

  // Why the draft can guess no further, for the reader; nothing while it can.
  std::optional<std::string> exhausted() const;

  const MirroredTree& tree() const { return tree_; }
  // Unsent nodes that were forgotten to stay within the bound.
  std::uint64_t evicted() const { return evicted_; }

 private:
  void weigh() { weigh_outcomes(tree_, advice_, weights_); }
  GrowthView view() const { return {tree_, notes_, weights_}; }
  NodeNote& note(NodeIndex node) { return notes_[static_cast<std::size_t>(node)]; }
  const NodeNote& note(NodeIndex node) const { return notes_[static_cast<std::size_t>(node)]; }

  std::vector<NodeIndex> most_wanted(const GrowthPolicy& policy, Position max_depth) const;
  bool may_run(NodeIndex node, Position max_depth) const;
  void add_rows(NodeIndex node, DraftStep& step);
  int row_of(NodeIndex node) const;
  NodeIndex add_node(NodeIndex parent, TokenId token);
  void add_guesses(NodeIndex parent, const std::vector<Guess>& guesses);
  void learn(std::span<const TokenId> tokens);
  void keep_bound();
  bool evictable(NodeIndex node) const;
  void mark_in_flight();
  std::vector<NodeIndex> sent_unused() const;

  const DrafterOptions options_;
  MirroredTree tree_;
  GuessCalibration calibration_;
  DraftText text_;
  bool root_expanded_ = false;            // the root's children are known
  std::optional<TokenId> foreign_token_;  // committed, outside the draft's vocabulary

  std::vector<NodeNote> notes_;        // [tree_.index_limit()]
  std::vector<double> weights_;        // likewise; as of the last weigh()
  std::vector<OutcomeAdvice> advice_;  // of the pass in flight
  std::uint32_t next_order_ = 0;
  std::vector<Slot> forgotten_;  // slots of evicted nodes
  std::uint64_t evicted_ = 0;

  bool step_is_out_ = false;
  bool step_guesses_root_ = false;    // the step is a catch-up that reached the text's end ..
  Position step_end_ = 0;             // .. which was this
  std::vector<NodeIndex> step_rows_;  // of the step that is out; kNoNode: died or was committed
};

}  // namespace outrider
