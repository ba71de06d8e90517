// Pages that hold one value for each row in place of keys and values, for models that compute from
// tokens or hashes of texts.
//
// Thread rule: as kv_pages.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "common/engine/model/kv_pages.h"
#include "common/engine/model/model.h"

namespace outrider {

template <class T>
class CellValues final : public KvPages {
 public:
  CellValues(const void* model, std::int32_t count) : KvPages(model, count) {}

  // The value of the row.
  T& of(const Row& row) { return at(row.cache->slots().cell(row.slot)); }
  // The value of the row that it follows; none for the first of a text.
  T before(const Row& row, T none) {
    const KvSlots& slots = row.cache->slots();
    const Position position = slots.position(row.slot);
    if (position == 0) return none;
    const Slot parent = slots.parent(row.slot);
    // A committed row's slot is its position.
    return at(slots.cell(parent == kRootSlot ? static_cast<Slot>(position) - 1 : parent));
  }
  T& at(KvCell cell) {
    const auto index = static_cast<std::size_t>(cell);
    if (index >= values_.size()) values_.resize(index + 1);
    return values_[index];
  }

  void copy(KvCell from, KvCell to, std::int32_t rows) override {
    for (std::int32_t row = 0; row < rows; ++row) {
      const T value = at(from + row);
      at(to + row) = value;
    }
  }

 private:
  std::vector<T> values_;  // by cell, as far as they were used
};

}  // namespace outrider
