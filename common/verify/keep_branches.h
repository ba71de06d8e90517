// Which branches of a tree go on in the middle of a pass, from what a predictor makes of each edge
// (LEVER, section 4.3, "conservative pruning").
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace outrider
