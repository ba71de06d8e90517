// The state of every node id of one stream: living, committed at a position, or dead.
//
// Ids stay resolvable for the whole stream, but memory grows with the text, not with the number of
// ids. Living ids are listed; committed ids are kept as runs of consecutive ids at consecutive
// positions; every other id in use is dead.
//
//   ids given 1..9, text grows from position 100:  living [8->node 3, 9->node 4]
//   runs {first 2, count 3, position 100} {first 7, count 1, position 103}  =>  1, 5, 6 are dead
//
// Thread rule: a value without locks. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// A node's index in the tree's storage, stable while the node lives.
using NodeIndex = std::int32_t;
inline constexpr NodeIndex kRoot = -1;    // the end of the committed text, as a parent
inline constexpr NodeIndex kNoNode = -2;  // no such node

struct IdState {
  enum class Kind : std::uint8_t { kDead, kCommitted, kLiving } kind = Kind::kDead;
  NodeIndex node = kNoNode;  // if living
  Position position = 0;     // if committed

  static IdState dead() { return {}; }
  static IdState committed(Position at) { return {Kind::kCommitted, kNoNode, at}; }
  static IdState living(NodeIndex node) { return {Kind::kLiving, node, 0}; }
  friend bool operator==(const IdState&, const IdState&) = default;
};

class IdLedger final {
 public:
  struct LivingId {
    NodeId id;
    NodeIndex node;
  };

  // The id that the next node gets.
  NodeId next_id() const { return next_id_; }
  // The last id in use; 0: none.
  NodeId last_id() const { return next_id_ - 1; }

  // Assigns next_id() to a node in this state. Several ids may name one living node (aliases).
  NodeId add(IdState state);

  // The state of an assigned id: 1 <= id < next_id().
  IdState state(NodeId id) const;

  // Living ids in rising order, aliases included.
  std::span<const LivingId> living() const { return living_; }

  // Memory beyond the living ids: 16 bytes each. If the edge repeats no node, there is at most one
  // run per committed token.
  std::size_t runs() const { return runs_.size(); }

  // After a commit: calls `fate` for the new state of every living node.
  void settle(const std::function<IdState(NodeIndex)>& fate);

 private:
  // Ids [first, first + count) are committed at position, position + 1, ...
  struct Run {
    NodeId first;
    std::uint32_t count;
    Position position;
  };

  void add_committed(NodeId id, Position position);

  NodeId next_id_ = 1;
  std::vector<LivingId> living_;  // by id
  std::vector<Run> runs_;         // by first
};

}  // namespace outrider
