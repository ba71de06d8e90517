// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/leveled_model.h"

#include <algorithm>

#include "common/engine/model/row_check.h"

namespace outrider {

Status LeveledModel::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
  out.chosen.clear();
  const std::size_t first = rows.empty() ? 0 : level_of(rows.front());
  const auto is_of_first = [&](const Row& row) { return level_of(row) == first; };
  if (std::ranges::all_of(rows, is_of_first)) return levels_.at(first)(rows, out);
  const std::size_t wanted = share_out(rows);
  out.logits.resize(wanted * static_cast<std::size_t>(info_.vocab_size));
  out.vocab_size = info_.vocab_size;
  out.places.clear();
  out.row_logits = nullptr;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    if (!parts_[i].rows.empty()) OUTRIDER_RETURN_IF_ERROR(run(i, wanted, out));
  }
  return {};
}

// wanted: rows of the whole pass that want logits.
Status LeveledModel::run(std::size_t level, std::size_t wanted, PassOutput& out) {
  Part& part = parts_[level];
  part.out.abandoned = out.abandoned;
  OUTRIDER_RETURN_IF_ERROR(levels_[level](part.rows, part.out));
  out.threads = part.out.threads;
  const auto vocab = static_cast<std::size_t>(info_.vocab_size);
  for (std::size_t r = 0; r < part.wanted.size(); ++r) {
    std::copy_n(part.out.logits.data() + r * vocab, vocab,
                out.logits.data() + part.wanted[r] * vocab);
  }
  if (part.out.chosen.empty()) return {};
  out.chosen.resize(wanted, PassOutput::kNotChosen);
  for (std::size_t r = 0; r < part.wanted.size(); ++r) {
    out.chosen[part.wanted[r]] = part.out.chosen[r];
  }
  return {};
}

// Returns how many rows want logits.
std::size_t LeveledModel::share_out(std::span<const Row> rows) {
  for (Part& part : parts_) {
    part.rows.clear();
    part.wanted.clear();
  }
  std::size_t wanted = 0;
  for (const Row& row : rows) {
    Part& part = parts_.at(level_of(row));
    part.rows.push_back(row);
    if (row.wants_logits) part.wanted.push_back(wanted++);
  }
  return wanted;
}

}  // namespace outrider
