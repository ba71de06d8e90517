// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/toy_draft.h"

#include <cstdint>

namespace outrider {

ToyDraft::ToyDraft(const ToyModel& target, float strays, Position max_positions,
                   std::int32_t padding)
    : target_(target), strays_(strays), info_(target.info()) {
  info_.vocab_size += padding;
  info_.name = "toy-draft";
  info_.max_positions = max_positions;
}

Result<std::shared_ptr<KvPages>> ToyDraft::new_pages(std::int32_t count) {
  return std::shared_ptr<KvPages>(std::make_shared<ToyPages>(this, count));
}

Status ToyDraft::forward(std::span<const Row> rows, PassOutput& out) {
  out.vocab_size = info_.vocab_size;
  out.logits.clear();
  if (out.is_abandoned()) return cancelled("toy: abandoned");
  ++passes_;
  rows_run_ += rows.size();
  for (const Row& row : rows) {
    if (row.token < 0 || row.token >= info_.vocab_size) return invalid_argument("toy: token");
    if (row.cache->slots().position(row.slot) >= info_.max_positions) {
      return invalid_argument("toy: position");
    }
    write_token(row);
    if (!row.wants_logits) continue;
    const std::vector<float> logits = logits_after(read_path(row));
    out.logits.insert(out.logits.end(), logits.begin(), logits.end());
  }
  return {};
}

std::vector<float> ToyDraft::logits_after(std::span<const TokenId> text) const {
  std::vector<float> logits = target_.logits_after(text);
  std::uint64_t hash = 0;
  for (const TokenId token : text)
    hash = hash * 6364136223846793005u + static_cast<std::uint64_t>(token + 1);
  for (float& logit : logits) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    logit += strays_ * 4 * static_cast<float>(hash >> 40) / 0x1p24f;
  }
  const bool says_padding = hash >> 62 == 0;
  logits.resize(static_cast<std::size_t>(info_.vocab_size), says_padding ? 20.0f : -20.0f);
  return logits;
}

}  // namespace outrider
