// What to draft next, as a policy: a priority and a stopping rule. Chains, width-adaptive trees
// and gain/cost trees (DESIGN section 2, the table) differ in nothing else, so the drafter has one
// growth queue and asks.
//
// Thread rule: pure; owned by the drafter. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/tree/mirrored_tree.h"

namespace outrider {

// Depth of a living node: 1 for the root's children.
inline Position depth_of(const MirroredTree& tree, NodeIndex node) {
  return tree.node(node).position - tree.end() + 1;
}

// Depth of the deepest living node; 0 without nodes.
Position max_depth_of(const MirroredTree& tree);

class GrowthPolicy {
 public:
  virtual ~GrowthPolicy() = default;

  // How many children a node gets when its row is run, best first. At least 1.
  virtual int fan_out() const = 0;

  // Worth of running this living node's row now; the highest goes first.
  virtual double priority(const MirroredTree& tree, NodeIndex node) const = 0;

  // The stopping rule: the tree is as large as a round needs it. `max_depth` is as deep as nodes
  // can be of use (the answer's end, the contexts, the verifier's rows).
  virtual bool enough(const MirroredTree& tree, Position max_depth) const = 0;
};

// Plain speculative decoding: the best child, gamma times (FSD section 3, algorithm 1).
class ChainPolicy final : public GrowthPolicy {
 public:
  // gamma: drafted tokens in a round, >= 1.
  explicit ChainPolicy(int gamma) : gamma_(gamma) {}

  int fan_out() const override { return 1; }
  double priority(const MirroredTree& tree, NodeIndex node) const override;
  bool enough(const MirroredTree& tree, Position max_depth) const override;

 private:
  int gamma_;
};

}  // namespace outrider
