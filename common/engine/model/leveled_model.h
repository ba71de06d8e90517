// The levels of an elastic model (docs/elastic.md) as one model: each sequence is computed by the
// level that its cache names (KvCache::level()); with one level, by that one. A pass computes level
// by level, and its rows have the bits that they have in a pass of their own level alone; one of
// several levels calls no tap and no pruner. Keys and values lie in the same pages, so what one
// level wrote may not be shared with another.
//
// Thread rule: as model.h. Ownership: the full model outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/engine/model/model.h"

namespace outrider {

class LeveledModel final : public Model {
 public:
  // Runs a level's pass of rows that were checked.
  using RunLevel = std::function<Status(std::span<const Row> rows, PassOutput& out)>;
  // Pages of the full model's form, which are `owner`'s.
  using NewPages =
      std::function<Result<std::shared_ptr<KvPages>>(const Model* owner, std::int32_t count)>;

  // levels: at least one.
  LeveledModel(Model& full, ModelInfo info, std::vector<RunLevel> levels, NewPages new_pages)
      : full_(full),
        info_(std::move(info)),
        levels_(std::move(levels)),
        new_pages_(std::move(new_pages)),
        parts_(levels_.size()) {}

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return new_pages_(this, count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;
  Status take_heads(const LayerHeads& heads) override { return full_.take_heads(heads); }
  Status check_unchanged() const override { return full_.check_unchanged(); }

 private:
  // The part of a pass that a level computes.
  struct Part {
    std::vector<Row> rows;
    std::vector<std::size_t> wanted;  // of those that want logits: where these go in the pass's
    PassOutput out;
  };

  std::size_t level_of(const Row& row) const {
    return levels_.size() == 1 ? 0 : row.cache->level();
  }
  std::size_t share_out(std::span<const Row> rows);
  Status run(std::size_t level, std::size_t wanted, PassOutput& out);

  Model& full_;
  const ModelInfo info_;
  const std::vector<RunLevel> levels_;
  const NewPages new_pages_;
  std::vector<Part> parts_;  // by level
};

}  // namespace outrider
