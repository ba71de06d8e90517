// The nodes that one message adds to the mirrored tree, as plain values.
//
// A struct here has the shape of its message but no validity: MirroredTree::receive() checks it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// A confidence, 0..1, as the one byte that messages carry. NaN: 0.
inline std::uint8_t confidence_byte(double confidence) {
  if (!(confidence > 0)) return 0;
  return static_cast<std::uint8_t>(std::lround(std::min(confidence, 1.0) * 255));
}

struct GrowNode {
  TokenId token = 0;
  std::uint32_t parent = 0;  // 0: the anchor; d > 0: the node with id (own id - d)
  std::uint8_t confidence =
      0;  // 0..255 for 0..1: chance that the node is accepted if its parent is; advice
};

// Nodes of the tree. Node k has id first_id + k. Without nodes it requests a pass at the anchor.
struct Grow {
  NodeId first_id = 0;
  Position anchor_position = 0;
  std::vector<GrowNode> nodes;
};

}  // namespace outrider
