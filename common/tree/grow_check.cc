// SPDX-License-Identifier: Apache-2.0
#include "common/tree/grow_check.h"

#include <limits>
#include <string>

namespace outrider {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

}  // namespace

Status check_grow(const Grow& grow, const ReceiveLimits& limits, NodeId next_id, Position end) {
  if (grow.first_id != next_id) {
    return invalid_argument("Grow.first_id: " + number(grow.first_id) + "; expected the next id, " +
                            number(next_id));
  }
  if (grow.nodes.size() > limits.max_nodes) {
    return invalid_argument("Grow.tokens: " + std::to_string(grow.nodes.size()) +
                            " nodes in one message; expected at most " + number(limits.max_nodes));
  }
  if (grow.nodes.size() > std::numeric_limits<NodeId>::max() - grow.first_id) {
    return invalid_argument("Grow.first_id: no ids are left in this stream; open a new one");
  }
  if (grow.anchor_position < 0) {
    return invalid_argument("Grow.anchor_position: " + number(grow.anchor_position) +
                            "; expected 0 to " + number(end));
  }
  if (grow.anchor_position > end) {
    return failed_precondition("Grow.anchor_position: " + number(grow.anchor_position) +
                               " lies beyond the committed text; its end is " + number(end));
  }
  return {};
}

Status check_grow_node(const GrowNode& node, const ReceiveLimits& limits, NodeId id) {
  if (node.token < 0 || node.token >= limits.vocab_size) {
    return invalid_argument("Grow.tokens: " + number(node.token) + " at id " + number(id) +
                            "; expected 0 to " + number(limits.vocab_size - 1));
  }
  if (node.parent >= id) {
    return invalid_argument("Grow.parents: " + number(node.parent) + " at id " + number(id) +
                            " names a node never sent; expected at most " + number(id - 1));
  }
  return {};
}

}  // namespace outrider
