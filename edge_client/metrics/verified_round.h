// The drafted nodes that one pass verified, and which of them stood, by depth and branch.
//
// A node's depth is 1 under the root. Its branch is its place among the siblings that the pass
// took, in the order of sending: 0 for the first. In a chain every node is branch 0.
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/tree/mirrored_tree.h"

namespace outrider {

struct VerifiedRound {
  std::size_t nodes = 0;
  std::size_t accepted = 0;  // tokens of the verdict that are nodes of the pass
  // [depth - 1][branch]: nodes; the first `accepted` depths have one that stood.
  std::vector<std::vector<std::uint64_t>> drafted = {};
  std::vector<std::size_t> accepted_branch = {};  // [depth - 1], of the node that stood

  std::size_t depth() const { return drafted.size(); }
};

// tree: before the verdict's tokens are committed. All tokens but the last are nodes of the pass.
VerifiedRound verified_round(const MirroredTree& tree, const Started& started,
                             std::span<const TokenId> tokens);

}  // namespace outrider
