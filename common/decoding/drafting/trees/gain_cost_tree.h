// LEVER's gain-cost trees (section 4.2, algorithm 1, equations 1 to 6), and our own.
//
// The tree with the most expected tokens per time of its cycle, grown greedily:
//
//   G(T) = 1 + sum of b(u)           b(u): the chance that verification reaches u
//   C(T) = drafting + verify(|T|, leaves)
//   add argmax b(v) / dC(v | T) while that is more than G / C
//
// LEVER: as printed. Each added node also pays for the draft's row that names its children. The
// paper leaves Calibrate open; here b(v) = b(u) * p(v) * min(1, r / mass). `mass` is the sum of the
// draft's confidences in its candidates, and r, the reliability, is how often one of them was the
// token lately. This keeps the draft's ranking; it is p where candidates keep their promise, and
// less where they do not.
//
// Outrider: b is the calibrated chance with the exits' advice, and a node is added without its row.
// Whether to run a row is a decision of its own: its gain is that of the best child on average, its
// cost what drafting adds to a cycle beyond what reading the target hides (HiddenDrafting). Where
// reading the target takes longer than computing it, nodes cost almost nothing and rows of the
// draft do not. Where no tree pays, the plan is empty (plain decoding), and a tree is tried again
// from time to time.
//
// Thread rule: pure; owned by the strategy. Units: milliseconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/decoding/drafting/round_planner.h"
#include "common/decoding/drafting/trees/tree_memory.h"

namespace outrider {

class GainCostTree final : public RoundPlanner {
 public:
  struct Options {
    bool separate_rows = false;   // Outrider's way
    std::size_t batch = 1;        // rows that one draft step may run
    std::size_t max_nodes = 64;   // of a round
    std::size_t first_nodes = 8;  // of a round while nothing is known of times
    double least_cost = 0.002;    // of a node, as a share of the cycle, where dC vanishes
  };

  // draft_ms: time of a draft step over this many rows, 0 while unknown. memory: learns from
  // verdicts. Both outlive the planner.
  GainCostTree(const Options& options, TreeMemory& memory,
               std::function<double(std::size_t)> draft_ms)
      : options_(options), draft_ms_(std::move(draft_ms)), memory_(memory) {}

  int fan_out() const override { return 4; }
  RoundPlan plan(const PlanView& view) override;
  void on_sent(const RoundPlan& plan, const PlanView& view) override;
  void on_verdict(std::span<const TokenId> tokens, const PassShape& pass) override;

  double reliability() const { return reliability_; }

 private:
  // One possible next move of growth.
  struct Move {
    NodeIndex node = kNoNode;
    double gain = 0;         // b of the node
    bool runs_row = false;   // runs the node's row; else adds the node
    bool pays_row = false;   // adding it pays for its row too
    std::size_t family = 0;  // its parent's children, in Growth
  };
  struct Growth;
  struct Costs;

  void open(const PlanView& view, NodeIndex node, double reached, Growth& growth) const;
  void add(const PlanView& view, const Move& move, Growth& growth) const;
  Costs costs(const Growth& growth) const;
  bool is_kept(NodeIndex node) const;
  void spend_row(Growth& growth) const;
  double verify_ms(std::size_t nodes, std::size_t leaves) const {
    return memory_.passes.ms(nodes + 1, leaves);
  }
  double draft_row_ms(const Growth& growth) const;
  double reach(const PlanView& view, NodeIndex node, double parent, double mass) const;
  void begin_round(const PlanView& view);

  const Options options_;
  const std::function<double(std::size_t)> draft_ms_;
  TreeMemory& memory_;
  SentRound sent_;
  // Sorted: nodes whose rows had been run before the round began, and cost nothing now.
  std::vector<NodeIndex> kept_;
  bool in_round_ = false;
  bool rests_ = false;  // this round is plain decoding
  double reliability_ = 1;
  double best_child_ = 0.6;  // how often the best child of an accepted node was accepted too
  double drafted_ms_ = 0;    // for the round that was sent
};

}  // namespace outrider
