// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pass_rows.h"

#include <algorithm>

namespace outrider {

void PassRows::begin(std::span<const Row> rows) {
  rows_.assign(rows.begin(), rows.end());
  residual_.grow(rows.size() * static_cast<std::size_t>(stride_));
  shown_at_.clear();
  wanted_ = 0;
  for (const Row& row : rows_) {
    shown_at_.push_back(row.wants_logits ? static_cast<std::int32_t>(wanted_++) : -1);
  }
}

// Collects the rows that want logits, which are few in a prefill.
HiddenRows PassRows::gather(std::int32_t layer, ThreadPool& threads) {
  const auto width = static_cast<std::size_t>(width_);
  shown_.resize(wanted_ * width);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (shown_at_[r] < 0) continue;
    std::copy_n(residual(static_cast<std::int64_t>(r)), width_,
                shown_.data() + static_cast<std::int64_t>(shown_at_[r]) * width_);
  }
  return {.layer = layer,
          .first = 0,
          .count = wanted_,
          .width = width,
          .values = shown_.data(),
          .threads = &threads};
}

void PassRows::show(std::int32_t layer, LayerTap& tap, ThreadPool& threads) {
  if (wanted_ > 0) tap.on_layer(gather(layer, threads));
}

bool PassRows::prune(std::int32_t layer, RowPruner& pruner, ThreadPool& threads,
                     std::vector<std::int32_t>& places) {
  if (wanted_ == 0) return false;
  keep_.assign(wanted_, 1);
  pruner.prune(gather(layer, threads), keep_);
  if (!end_followers()) return false;
  close_up(places);
  return true;
}

// Fills goes_on_. A row comes after its parent.
bool PassRows::end_followers() {
  goes_on_.assign(rows_.size(), 1);
  bool any = false;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    const Slot parent = row.cache->slots().parent(row.slot);
    const auto follows = [&](std::size_t other) {
      return goes_on_[other] == 0 && rows_[other].cache == row.cache && rows_[other].slot == parent;
    };
    if (shown_at_[r] >= 0 && keep_[static_cast<std::size_t>(shown_at_[r])] == 0) goes_on_[r] = 0;
    for (std::size_t other = 0; other < r && any && goes_on_[r] != 0; ++other) {
      if (follows(other)) goes_on_[r] = 0;
    }
    any = any || goes_on_[r] == 0;
  }
  return any;
}

void PassRows::close_up(std::vector<std::int32_t>& places) {
  places.assign(wanted_, -1);
  std::size_t left = 0;
  std::int32_t with_logits = 0;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (goes_on_[r] == 0) continue;
    if (shown_at_[r] >= 0) places[static_cast<std::size_t>(shown_at_[r])] = with_logits++;
    if (left != r) {
      rows_[left] = rows_[r];
      shown_at_[left] = shown_at_[r];
      std::copy_n(residual(static_cast<std::int64_t>(r)), stride_,
                  residual(static_cast<std::int64_t>(left)));
    }
    ++left;
  }
  rows_.resize(left);
  shown_at_.resize(left);
}

}  // namespace outrider
