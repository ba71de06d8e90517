// Ends branches of a verifying pass in its middle, where an early exit gives them little chance
// (LEVER, section 4.3; docs/pruning.md).
//
// The predictor is one of the target's exits. It scores what was drafted below a row by eq. 11:
// against each other, and against the exit's own likeliest tokens, the shadow candidates, all by
// the law of choice's perturbed score (so the noise is the target's) and with the exit's calibrated
// prior for drafted tokens. What a pass loses by pruning is accepted tokens, never an exact one: a
// branch that is ended by mistake ends the walk at its parent, whose own choice stands.
//
//   (begin watch* forward(pruner = this))*
//
// Thread rule: the compute thread. Ownership: heads outlive it; opens and plans outlive the pass.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/exits/exit_heads.h"
#include "common/model/model.h"
#include "common/protocol/messages.h"
#include "common/verify/pass_plan.h"
#include "common/verify/scheduler_types.h"
#include "common/verify/watched_rows.h"

namespace outrider {

struct BranchNode {
  std::int32_t parent = -1;  // an earlier index; -1: the root
  double score = 0;          // that the target chooses it after its parent, 0 .. 1 (eq. 11)
};

// By node: 1 if it goes on. A node's chance is the product of the scores on its path; it ends if
// that is below `threshold`, so that what follows an ended node ends too. Three rules keep more:
// the backbone, i.e. the best child of the best child and so on from the root; the root's best two
// children; and everything, if less than a quarter of the nodes would be left.
std::vector<std::uint8_t> keep_branches(std::span<const BranchNode> nodes, double threshold);

class BranchPruner final : public RowPruner {
 public:
  // threshold: of a branch's chance, 0 .. 1. It looks at the exit nearest to the middle of
  // `num_layers`.
  BranchPruner(ExitHeads& heads, double threshold, std::int32_t num_layers);

  // For a pass of a target whose vocabulary has `vocab` tokens.
  void begin(std::int32_t vocab);
  // A rider of that pass; a plan without branches is left alone. first_row: of its rows, among all
  // that want logits; riders come in the order of their rows.
  void watch(const Open& open, const PassPlan& plan, std::size_t first_row);

  bool wants(std::int32_t layer) const override;
  void prune(const HiddenRows& rows, std::span<std::uint8_t> keep) override;

  const PruneCounts& counts() const { return counts_; }

 private:
  // A rider with branches.
  struct Branches {
    const Open* open = nullptr;
    const PassPlan* plan = nullptr;
    std::size_t first_row = 0;
    std::vector<BranchNode> nodes = {};     // by node of the plan
    std::vector<Position> positions = {};   // by row of Chooser's numbering: of what it decides
    std::vector<std::size_t> parents = {};  // rows that have children, rising
    std::size_t first_parent = 0;           // of them, among parents_
  };

  void score_children(Branches& branches, std::size_t row, std::span<const float> logits) const;

  ExitHeads& heads_;
  const double threshold_;
  std::size_t exit_ = 0;

  // The pass at hand.
  std::size_t vocab_ = 0;
  std::vector<Branches> branches_;
  WatchedRows parents_;        // of all branches
  std::vector<float> logits_;  // [parents_, vocab]
  PruneCounts counts_;
};

}  // namespace outrider
