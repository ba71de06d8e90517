// SPDX-License-Identifier: Apache-2.0
#include "common/tree/grow_check.h"

#include <limits>
#include <string>

namespace outrider {

Status check_grow(const Grow& grow, NodeId next_id, Position end) {
  if (grow.first_id != next_id) {
    return invalid_argument("Grow.first_id: " + std::to_string(grow.first_id) +
                            "; expected the next id, " + std::to_string(next_id));
  }
  if (grow.nodes.size() > std::numeric_limits<NodeId>::max() - grow.first_id) {
    return invalid_argument("Grow.first_id: no ids are left in this stream; open a new one");
  }
  if (grow.anchor_position < 0) {
    return invalid_argument("Grow.anchor_position: " + std::to_string(grow.anchor_position) +
                            "; expected 0 to " + std::to_string(end));
  }
  if (grow.anchor_position > end) {
    return failed_precondition("Grow.anchor_position: " + std::to_string(grow.anchor_position) +
                               " lies beyond the committed text; its end is " +
                               std::to_string(end));
  }
  return {};
}

Status check_grow_node(const GrowNode& node, const ReceiveLimits& limits, NodeId id) {
  if (node.token < 0 || node.token >= limits.vocab_size) {
    return invalid_argument("Grow.tokens: " + std::to_string(node.token) + " at id " +
                            std::to_string(id) + "; expected 0 to " +
                            std::to_string(limits.vocab_size - 1));
  }
  if (node.parent >= id) {
    return invalid_argument("Grow.parents: " + std::to_string(node.parent) + " at id " +
                            std::to_string(id) + " names a node never sent; expected at most " +
                            std::to_string(id - 1));
  }
  return {};
}

}  // namespace outrider
