// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/row_check.h"

#include <algorithm>
#include <limits>
#include <string>

namespace outrider {
namespace {

Status refuse(std::size_t index, const std::string& why) {
  return invalid_argument("row " + std::to_string(index) + ": " + why);
}

// Marks the slot as this row's.
Status check_order(std::span<const Row> rows, std::size_t index) {
  const Row& row = rows[index];
  KvSlots& slots = row.cache->slots();
  std::int32_t& mark = slots.pass_row(row.slot);
  if (mark >= 0) {
    return refuse(
        index, "slot " + std::to_string(row.slot) + " is also that of row " + std::to_string(mark));
  }
  const Slot parent = slots.parent(row.slot);
  const auto is_parent = [&](const Row& other) {
    return other.cache == row.cache && other.slot == parent;
  };
  // A parent in this pass is marked; an unmarked one was filled earlier, or comes too late.
  if (parent != kRootSlot && slots.pass_row(parent) < 0 &&
      std::any_of(rows.begin() + static_cast<std::ptrdiff_t>(index) + 1, rows.end(), is_parent)) {
    return refuse(index,
                  "the row of its parent, slot " + std::to_string(parent) + ", comes after it");
  }
  mark = static_cast<std::int32_t>(index);
  return {};
}

Status check_row(std::span<const Row> rows, std::size_t index, const ModelInfo& info,
                 const void* model) {
  const Row& row = rows[index];
  if (row.cache == nullptr || row.cache->pages().model() != model) {
    return refuse(index, "the KV cache belongs to another model");
  }
  if (row.token < 0 || row.token >= info.vocab_size) {
    return refuse(index, "token " + std::to_string(row.token) + " is outside the vocabulary of " +
                             std::to_string(info.vocab_size));
  }
  const KvSlots& slots = row.cache->slots();
  if (!slots.holds(row.slot) || slots.is_committed(row.slot)) {
    return refuse(index, "slot " + std::to_string(row.slot) +
                             (slots.holds(row.slot) ? " is committed" : " is not in use"));
  }
  if (slots.position(row.slot) >= info.max_positions) {
    return refuse(index, "position " + std::to_string(slots.position(row.slot)) +
                             " is beyond the model's " + std::to_string(info.max_positions));
  }
  return check_order(rows, index);
}

}  // namespace

Status check_rows(std::span<const Row> rows, const ModelInfo& info, const void* model) {
  Status status;
  std::size_t checked = 0;
  while (checked < rows.size() && status.ok()) {
    status = check_row(rows, checked, info, model);
    if (status.ok()) ++checked;
  }
  for (const Row& row : rows.first(checked)) {
    row.cache->slots().pass_row(row.slot) = -1;
  }
  return status;
}

Status check_logits_of(std::span<const Row> rows, std::size_t row, const PassOutput& out,
                       std::size_t index) {
  const auto counts = [](float logit) {  // false for NaN
    return logit > -std::numeric_limits<float>::infinity();
  };
  const std::span<const float> logits = out.row(index);
  if (std::any_of(logits.begin(), logits.end(), counts)) return {};
  const Position chosen = rows[row].cache->slots().position(rows[row].slot) + 1;
  return data_loss("row " + std::to_string(row) + ", which decides position " +
                   std::to_string(chosen) +
                   ": every logit is NaN or -infinity. Remedy: compare the model's weights with "
                   "their source, they may be damaged; if they are equal, they overflow in this "
                   "dtype: use --dtype f32");
}

Status check_logits(std::span<const Row> rows, const PassOutput& out) {
  std::size_t written = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].wants_logits) continue;
    const std::size_t index = written++;
    if (!out.has_row(index) || out.chosen_of(index) != PassOutput::kNotChosen) continue;
    OUTRIDER_RETURN_IF_ERROR(check_logits_of(rows, i, out, index));
  }
  return {};
}

}  // namespace outrider
