// Selects the nodes of a pass when more nodes live than it has rows.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "common/base/types.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {

struct RankedNode {
  NodeIndex node;
  float chance;  // that its whole path stands
  Position position;
  NodeId id;
};

// The chance that a node stands if its parent does, of the confidence that its drafter states.
using Calibrate = std::function<float(float stated)>;

// The nodes at positions up to the last, most likely walked first: by the product of the chances on
// the path, then by depth, then by order of sending. So a node comes after its parent. Every node
// of the tree must have an id. No calibrate: chances are as stated.
std::vector<RankedNode> rank_nodes(const MirroredTree& tree, Position last_position,
                                   const Calibrate& calibrate = {});

struct Selection {
  std::vector<NodeIndex> taken;  // by id, so a parent comes before its children
  std::vector<NodeId> left_out;  // the first ids of the others, rising
};

// The first `budget` of the ranked nodes. The others, and those beyond the last position, are left
// out.
Selection select_nodes(const MirroredTree& tree, std::size_t budget, Position last_position,
                       const Calibrate& calibrate = {});

}  // namespace outrider
