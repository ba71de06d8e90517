// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/pass_timer.h"

#include <algorithm>
#include <vector>

#include "common/base/clock.h"

namespace outrider {
namespace {

constexpr int kChunk = 512;  // when filling a context, which is not timed

}  // namespace

Result<PassTimer> PassTimer::make(Model& model, int capacity) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, model.new_cache(capacity));
  return PassTimer(model, std::move(cache));
}

Result<double> PassTimer::time_pass(int rows, int context) {
  KvSlots& slots = cache_->slots();
  slots.truncate(std::min<Position>(slots.committed(), context));
  for (int left = context - slots.committed(); left > 0; left -= kChunk) {
    OUTRIDER_RETURN_IF_ERROR(run(std::min(left, kChunk), false, true).status());
  }
  return run(rows, true, false);
}

Result<double> PassTimer::time_prefill(int tokens) {
  cache_->slots().truncate(0);
  const Result<double> seconds = run(tokens, false, true);
  cache_->slots().truncate(0);
  return seconds;
}

Result<double> PassTimer::run(int rows, bool all_logits, bool commit) {
  KvSlots& slots = cache_->slots();
  std::vector<Row> chain;
  Slot slot = kRootSlot;
  for (int i = 0; i < rows; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(slot, slots.append(slot));
    const std::int64_t position = slots.committed() + i;
    chain.push_back({cache_.get(), slot,
                     static_cast<TokenId>(position * 7919 % model_->info().vocab_size),
                     all_logits || i + 1 == rows});
  }
  const TimePoint start = SystemClock().now();
  OUTRIDER_RETURN_IF_ERROR(model_->forward(chain, out_));
  const double seconds = to_seconds(SystemClock().now() - start);
  if (commit) {
    slots.commit(slot);
  } else {
    slots.release_all_uncommitted();
  }
  return seconds;
}

}  // namespace outrider
