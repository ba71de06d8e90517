// The memory for keys and values of a model's caches, in pages: which are free, and how many hold
// each of the others.
//
// A page has room for 64 rows of one sequence, in all layers. Several may hold a page that none of
// them writes: the full pages of a text that they have in common. A backend derives the storage.
//
// Thread rule: owned by the thread that runs the model. Ownership: caches share it (KvCache).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"

namespace outrider {

using KvPage = std::int32_t;
// A row's place in the memory: page * 64 + its place in the page.
using KvCell = std::int32_t;

class KvPages {
 public:
  static constexpr std::int32_t kRows = 64;

  // So that a cell is a KvCell.
  static constexpr std::int32_t kMost = (1 << 25) - 1;

  // model: whose storage this is. count: of pages, 1 to kMost.
  KvPages(const void* model, std::int32_t count);
  virtual ~KvPages() = default;
  KvPages(const KvPages&) = delete;
  KvPages& operator=(const KvPages&) = delete;

  const void* model() const { return model_; }
  std::int32_t count() const { return static_cast<std::int32_t>(holders_.size()); }
  std::int32_t free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t used() const { return count() - free(); }
  // The number of pages in use that were taken for `owner`.
  std::int32_t used_by(std::int32_t owner) const;

  // A free page, held once. Its content is undefined. owner: whose it is counted as, a small number
  // from 0. RESOURCE_EXHAUSTED when none is free.
  Result<KvPage> take(std::int32_t owner);
  // One more holds the page.
  void share(KvPage page) { ++holders_.at(index(page)); }
  // One less holds it; it is free when nobody does.
  void give_back(KvPage page);
  std::int32_t holders(KvPage page) const { return holders_.at(index(page)); }

  // Copies the keys and values of `rows` rows, which lie in one page, to `to` in the same or
  // another page, without overlap. Here, where there is no storage, nothing.
  virtual void copy(KvCell /*from*/, KvCell /*to*/, std::int32_t /*rows*/) {}

 private:
  static std::size_t index(KvPage page) { return static_cast<std::size_t>(page); }

  const void* const model_;
  std::vector<std::int32_t> holders_;  // by page; 0: free
  std::vector<std::int32_t> owners_;   // by page in use
  std::vector<std::int32_t> used_by_;  // by owner
  std::vector<KvPage> free_;           // a stack; lowest pages first at the beginning
};

}  // namespace outrider
