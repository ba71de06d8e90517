// Which living nodes a pass takes when there are more than it has rows for.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/types.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

struct Selection {
  std::vector<NodeIndex> taken;  // by id, so a parent stands before its children
  std::vector<NodeId> left_out;  // the first ids of the others, rising
};

// The `budget` nodes most likely to be walked: by the product of the confidences on the path, then
// the shallower, then the earlier sent. So no node is taken without its parent. Nodes beyond
// `last_position` are of no use to the pass and are left out. Every node of the tree has an id.
Selection select_nodes(const MirroredTree& tree, std::size_t budget, Position last_position);

}  // namespace outrider
