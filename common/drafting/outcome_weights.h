// How likely each node of the tree is to become text.
//
// While a pass is in flight, its verdict says "the walk ends at node v, the next token is t". That
// is the event "node (v, t) becomes text", so outcomes need no list of their own: they are nodes,
// and their chances follow from the tree. Without news a node's chance is the product of the
// confidences on its path. An early exit (FSD section 3, step 3) names one outcome o and how sure
// it is of the whole of it; the chances then follow by Jeffrey's rule: o gets the reported one,
// and within "o" and within "not o" all proportions stay:
//
//   w'(a) = p * w(a and o) / w(o)  +  (1 - p) * (w(a) - w(a and o)) / (1 - w(o))
//
//   text - a(.8) - b(.5)    an exit says: the walk ends at a, then c, chance .9
//              \ c(.2)      w: a .80 -> .98   c .16 -> .90   b .40 -> .05
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "common/tree/mirrored_tree.h"

namespace outrider {

// An early exit, which saw more than the draft did, expects this node to become text.
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
  bool whole = false;  // it is bounded by what was asked for, not by what is drafted
};

// How far a chain goes: at most `most` nodes, and while the chance that all of them stand is at
// least `least_chance`; its first node always belongs to it.
struct ChainBounds {
  std::size_t most = 0;
  double least_chance = 0;
};

// The likeliest chain below `from`.
LikeliestChain likeliest_chain(const MirroredTree& tree, NodeIndex from, const ChainBounds& bounds);
// The likeliest chain that begins with `first`.
LikeliestChain likeliest_chain_from(const MirroredTree& tree, NodeIndex first,
                                    const ChainBounds& bounds);

// weights[node]: the chance of every living node, [tree.index_limit()]; of other indices 0. Advice
// counts in its order.
void weigh_outcomes(const MirroredTree& tree, std::span<const OutcomeAdvice> advice,
                    std::vector<double>& weights);

}  // namespace outrider
