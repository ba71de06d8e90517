// Selects the nodes of a pass when more nodes live than it has rows.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/types.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

struct Selection {
  std::vector<NodeIndex> taken;  // by id, so a parent comes before its children
  std::vector<NodeId> left_out;  // the first ids of the others, rising
};

// The `budget` nodes most likely to be walked: by the product of the confidences on the path, then
// by depth, then by order of sending. So a node is taken only with its parent. Nodes beyond
// `last_position` are useless to the pass and are left out. Every node of the tree must have an id.
Selection select_nodes(const MirroredTree& tree, std::size_t budget, Position last_position);

}  // namespace outrider
