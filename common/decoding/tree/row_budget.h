// Selects the nodes of a pass when more nodes live than it has rows.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/tree/mirrored_tree.h"

namespace outrider {

struct RankedNode {
  NodeIndex node;
  float chance;  // that its whole path stands
  Position position;
  NodeId id;  // 0: nobody sent it
};

// The chance that a node stands if its parent does. Empty: the confidence that it has.
using Calibrate = std::function<float(const TreeNode&)>;

struct RowBudget {
  std::size_t nodes = 0;
  // The most of those that the edge sent: the verifier's own nodes do not count.
  std::size_t sent = std::numeric_limits<std::size_t>::max();
  Position last_position = 0;  // nodes beyond are of no use
  Calibrate calibrate = {};
};

// The nodes that fit, most likely walked first: by the product of the chances on the path, then by
// depth, then by order of sending, the verifier's own last. So a node comes after its parent.
std::vector<RankedNode> rank_nodes(const MirroredTree& tree, const RowBudget& budget);

struct Selection {
  // By id, the verifier's own behind them by position: a parent comes before its children.
  std::vector<NodeIndex> taken;
  std::vector<NodeId> left_out;  // the first ids of the others that the edge sent, rising
};

// The ranked nodes, and which the budget leaves out.
Selection select_nodes(const MirroredTree& tree, const RowBudget& budget);

}  // namespace outrider
