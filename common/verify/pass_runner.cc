// SPDX-License-Identifier: Apache-2.0
#include "common/verify/pass_runner.h"

#include "common/model/row_check.h"

namespace outrider {

Status PassRunner::compute(const PassPlan& plan, KvCache& cache, const PassWatchers& watchers) {
  OUTRIDER_CHECK(cache.slots().committed() == plan.position);
  OUTRIDER_CHECK(!plan.tokens.empty());
  output_.row_logits = nullptr;
  Status status = append_rows(plan, cache);
  output_.tap = watchers.tap;
  output_.pruner = watchers.pruner;
  output_.on_layer_done = watchers.on_layer_done;
  if (status.ok()) status = model_.forward(rows_, output_);
  if (status.ok() && !demands()) status = check_logits(rows_, output_);
  if (!status.ok()) cache.slots().release_all_uncommitted();
  return status;
}

Status PassRunner::demand(std::span<const std::size_t> rows) {
  OUTRIDER_RETURN_IF_ERROR(output_.row_logits->compute(rows, output_));
  for (const std::size_t row : rows) {
    OUTRIDER_RETURN_IF_ERROR(check_logits_of(rows_, num_tokens_ - 1 + row, output_, row));
  }
  return {};
}

Status PassRunner::append_rows(const PassPlan& plan, KvCache& cache) {
  rows_.clear();
  num_tokens_ = plan.tokens.size();
  Slot above = kRootSlot;
  for (const TokenId token : plan.tokens) {
    OUTRIDER_ASSIGN_OR_RETURN(above, cache.slots().append(above));
    rows_.push_back({.cache = &cache, .slot = above, .token = token, .wants_logits = false});
  }
  rows_.back().wants_logits = plan.decides;
  for (const PassPlan::NodeRow& node : plan.nodes) {
    // Parent -1 lands on the last of the tokens.
    const std::size_t parent = num_tokens_ - 1 + row_after(node.parent);
    OUTRIDER_CHECK(parent < rows_.size());
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, cache.slots().append(rows_[parent].slot));
    rows_.push_back({.cache = &cache, .slot = slot, .token = node.token, .wants_logits = true});
  }
  return {};
}

void PassRunner::keep(std::int32_t leaf, KvCache& cache) {
  const std::size_t row = num_tokens_ - 1 + row_after(leaf);
  cache.slots().commit(rows_.at(row).slot);
  cache.slots().release_all_uncommitted();
}

}  // namespace outrider
