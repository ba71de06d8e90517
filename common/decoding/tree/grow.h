// The nodes that one message adds to the mirrored tree, as plain values.
//
// A struct here has the shape of its message but no validity: MirroredTree::receive() checks it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
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

// A token that the draft guessed.
struct DraftCandidate {
  TokenId token = 0;
  float confidence = 0;  // 0..1
};

// All that the draft guessed below one parent, whether it is sent or not: the candidate set C(u) of
// LEVER (section 4.2), by which a verifier prunes (branch_pruner.h).
struct CandidateSet {
  std::size_t node = 0;  // the parent is that of Grow::nodes[node]
  std::vector<DraftCandidate> candidates;
};

// Nodes of the tree. Node k has id first_id + k. Without nodes it requests a pass at the anchor.
struct Grow {
  NodeId first_id = 0;
  Position anchor_position = 0;
  std::vector<GrowNode> nodes;
  // No part of the message: only a verifier in the same process gets them.
  std::vector<CandidateSet> candidates = {};
};

}  // namespace outrider
