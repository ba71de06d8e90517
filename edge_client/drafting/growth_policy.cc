// SPDX-License-Identifier: Apache-2.0
#include "edge_client/drafting/growth_policy.h"

#include <algorithm>

namespace outrider {

Position max_depth_of(const MirroredTree& tree) {
  Position deepest = 0;
  for (std::size_t i = 0; i < tree.index_limit(); ++i) {
    const auto node = static_cast<NodeIndex>(i);
    if (tree.contains(node)) deepest = std::max(deepest, depth_of(tree, node));
  }
  return deepest;
}

double ChainPolicy::priority(const MirroredTree& tree, NodeIndex node) const {
  return static_cast<double>(depth_of(tree, node));
}

bool ChainPolicy::enough(const MirroredTree& tree, Position max_depth) const {
  return max_depth_of(tree) >= std::min<Position>(gamma_, max_depth);
}

}  // namespace outrider
