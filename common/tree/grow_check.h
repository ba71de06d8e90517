// What a Grow that comes off the wire is held against before it changes a tree.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/tree/grow.h"

namespace outrider {

// What receive() holds a message against.
struct ReceiveLimits {
  std::int32_t vocab_size = 0;
  std::uint32_t max_nodes = 0;  // living ids at once, aliases included
};

// next_id: the first id not yet given; end: of the committed text. INVALID_ARGUMENT for a value
// that is always wrong, FAILED_PRECONDITION for an anchor beyond `end`. How many nodes there are is
// no fault, as those that are dead on arrival cost nothing; the codec bounds a message.
Status check_grow(const Grow& grow, NodeId next_id, Position end);

// A node of it, which gets this id. INVALID_ARGUMENT for a token or parent that is none.
Status check_grow_node(const GrowNode& node, const ReceiveLimits& limits, NodeId id);

}  // namespace outrider
