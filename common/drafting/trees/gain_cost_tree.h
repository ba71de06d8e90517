// LEVER's gain-cost trees (section 4.2, algorithm 1, equations 1 to 6), and ours.
//
// The tree with the most expected tokens for its cycle's time, grown greedily:
//
//   G(T) = 1 + sum of b(u)           b(u): the chance that verification reaches u
//   C(T) = drafting + verify(|T|, leaves)
//   add argmax b(v) / dC(v | T) while that is more than G / C
//
// Lever: as printed. Each added node pays for the draft's row that names its children. LEVER leaves
// Calibrate open; here b(v) = b(u) * p(v) * min(1, r / mass), where `mass` is what the draft's
// candidates promise together and r, the reliability, how often they held the token of late. That
// keeps the draft's ranking, is p where candidates hold what they promise, and less where they do
// not.
//
// Outrider: b is the chance by experience and by what exits said, and a node is added without its
// row: that a row is worth running is a decision of its own, at the gain that the best child has
// had on the average and at what drafting adds to a cycle beyond what reading hides
// (hidden_drafting.h). Where reading the target takes longer than computing, nodes are all but free
// and rows of the draft are not. Where no tree pays, the plan is empty (plain decoding), and now
// and then a tree is tried again.
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/drafting/trees/sent_round.h"
#include "common/drafting/trees/tree_memory.h"

namespace outrider {

class GainCostTree final : public RoundPlanner {
 public:
  struct Options {
    bool separate_rows = false;   // ours
    std::size_t batch = 1;        // rows that one draft step may run
    std::size_t max_nodes = 64;   // of a round
    std::size_t first_nodes = 8;  // of a round while nothing is known of times
    double least_cost = 0.002;    // of a node: this share of the cycle, where dC vanishes
  };

  // draft_ms: of a draft step over so many rows, 0 while that is not known. memory: learns from
  // verdicts; both outlive the planner.
  GainCostTree(const Options& options, TreeMemory& memory,
               std::function<double(std::size_t)> draft_ms)
      : options_(options), draft_ms_(std::move(draft_ms)), memory_(memory) {}

  int fan_out() const override { return 4; }
  RoundPlan plan(const PlanView& view) override;
  void on_sent(const RoundPlan& plan, const PlanView& view) override;
  void on_verdict(std::span<const TokenId> tokens, const PassShape& pass) override;

  double reliability() const { return reliability_; }

 private:
  // One thing that growth may do next.
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
  std::vector<NodeIndex>
      kept_;  // rising; rows that had been run when the round began: they cost nothing now
  bool in_round_ = false;
  bool rests_ = false;  // this round is plain decoding's
  double reliability_ = 1;
  double best_child_ = 0.6;  // how often the best child of a node that stood stood too
  double drafted_ms_ = 0;    // for the round that was sent
};

}  // namespace outrider
