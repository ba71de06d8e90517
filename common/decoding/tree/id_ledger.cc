// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/tree/id_ledger.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider {

NodeId IdLedger::add(IdState state) {
  const NodeId id = next_id_++;
  if (state.kind == IdState::Kind::kLiving) living_.push_back({id, state.node});
  if (state.kind == IdState::Kind::kCommitted) add_committed(id, state.position);
  return id;
}

IdState IdLedger::state(NodeId id) const {
  OUTRIDER_CHECK(id >= 1 && id < next_id_);
  const auto alive =
      std::lower_bound(living_.begin(), living_.end(), id,
                       [](const LivingId& entry, NodeId key) { return entry.id < key; });
  if (alive != living_.end() && alive->id == id) return IdState::living(alive->node);
  auto run = std::upper_bound(runs_.begin(), runs_.end(), id,
                              [](NodeId key, const Run& entry) { return key < entry.first; });
  if (run == runs_.begin()) return IdState::dead();
  --run;
  const NodeId offset = id - run->first;
  return offset < run->count ? IdState::committed(run->position + offset) : IdState::dead();
}

void IdLedger::settle(const std::function<IdState(NodeIndex)>& fate) {
  std::size_t kept = 0;
  for (const LivingId entry : living_) {
    const IdState state = fate(entry.node);
    if (state.kind == IdState::Kind::kLiving) living_[kept++] = {entry.id, state.node};
    if (state.kind == IdState::Kind::kCommitted) add_committed(entry.id, state.position);
  }
  living_.resize(kept);
}

void IdLedger::add_committed(NodeId id, Position position) {
  // Almost always at the end: ids committed now were sent recently.
  auto next = std::upper_bound(runs_.begin(), runs_.end(), id,
                               [](NodeId key, const Run& entry) { return key < entry.first; });
  const bool joins_next =
      next != runs_.end() && next->first == id + 1 && next->position == position + 1;
  if (next != runs_.begin()) {
    Run& before = *(next - 1);
    if (before.first + before.count == id && before.position + before.count == position) {
      ++before.count;
      if (joins_next) {
        before.count += next->count;
        runs_.erase(next);
      }
      return;
    }
  }
  if (joins_next) {
    --next->first;
    --next->position;
    ++next->count;
    return;
  }
  runs_.insert(next, {id, 1, position});
}

}  // namespace outrider
