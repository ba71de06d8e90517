// SPDX-License-Identifier: Apache-2.0
#include "common/drafting/draft_text.h"

#include <algorithm>
#include <utility>

namespace outrider {

void DraftText::restart(std::span<const TokenId> committed) {
  // The last token's row is always run again: its logits are the first guess.
  const auto most = static_cast<std::ptrdiff_t>(std::min(cached_.size(), committed.size() - 1));
  const auto differs =
      std::mismatch(cached_.begin(), cached_.begin() + most, committed.begin()).first;
  const auto common = static_cast<std::size_t>(differs - cached_.begin());
  cached_.resize(common);
  keep_ = static_cast<Position>(common);
  pending_.clear();
  for (const TokenId token : committed.subspan(common)) append(token, kRootSlot, -1);
}

void DraftText::append(TokenId token, Slot slot, int step_row) {
  pending_.push_back({token, slot, step_row});
}

bool DraftText::row_done(int step_row, Slot slot) {
  const auto found = std::ranges::find(pending_, step_row, &Pending::step_row);
  if (found == pending_.end()) return false;
  found->slot = slot;
  found->step_row = -1;
  return std::next(found) == pending_.end();
}

bool DraftText::awaits_row() const {
  return std::ranges::any_of(pending_, [](const Pending& p) { return p.step_row >= 0; });
}

// Accepted nodes that have KV stand first: rows are run parents first.
void DraftText::settle(DraftStep& step) {
  step.keep = std::exchange(keep_, std::nullopt);
  const auto first_without =
      std::ranges::find_if(pending_, [](const Pending& p) { return p.slot == kRootSlot; });
  for (auto it = pending_.begin(); it != first_without; ++it) {
    step.commit = it->slot;
    cached_.push_back(it->token);
  }
  pending_.erase(pending_.begin(), first_without);
}

void DraftText::fill_catch_up(DraftStep& step, std::size_t chunk) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(pending_.size(), chunk));
  for (auto it = pending_.begin(); it != pending_.begin() + count; ++it) {
    step.catch_up.push_back(it->token);
    cached_.push_back(it->token);
  }
  pending_.erase(pending_.begin(), pending_.begin() + count);
  step.guess_after_catch_up = pending_.empty();
}

}  // namespace outrider
