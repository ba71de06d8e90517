// A model whose passes take no time of the simulation: forward() runs at once and what its tap was
// to see is kept, so that the tap can be shown each layer when the emulated pass gets there.
//
//   deferred.forget();
//   scheduler.compute();                            // forward() runs; the tap has seen nothing yet
//   for (i < deferred.layers()) deferred.show(i);   // each at its time, before the pass is
//   finished
//
// Thread rule: as model.h. The model outlives it, and the tap of a pass outlives its show().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/model/model.h"

namespace outrider {

// What a pass computes: the rows that it began with, and those that went on behind a layer where
// some were ended.
struct PassRowCounts {
  std::size_t rows = 0;
  std::size_t left = 0;           // of them, to the end
  std::int32_t ended_after = 0;   // layers that the others went through
  std::int32_t pruned_after = 0;  // layers behind which a pruner looked; 0: none did
  // Heads of exits: behind how many layers, of how many rows.
  struct Head {
    std::int32_t layer = 0;
    std::size_t rows = 0;
  };
  std::vector<Head> heads = {};
};

class DeferredModel final : public Model {
 public:
  explicit DeferredModel(Model& model) : model_(model) {}

  const ModelInfo& info() const override { return model_.info(); }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_.new_cache(capacity);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

  // The next pass gives this error.
  void fail_next_pass(Status status) { failure_ = std::move(status); }
  int failed_passes() const { return failed_passes_; }

  // Of the last pass since forget(): no rows if it failed or there was none.
  const PassRowCounts& row_counts() const { return row_counts_; }
  // What its tap was to see, in rising order of layers.
  std::size_t layers() const { return kept_.size(); }
  std::int32_t layer(std::size_t index) const { return kept_[index].rows.layer; }
  void show(std::size_t index) const;
  void forget();

 private:
  struct Kept {
    HiddenRows rows;  // .values points into `values`
    std::vector<float> values;
  };
  class KeepingTap;
  class WatchingPruner;

  Model& model_;
  std::optional<Status> failure_;
  int failed_passes_ = 0;
  PassRowCounts row_counts_;
  LayerTap* tap_ = nullptr;
  std::vector<Kept> kept_;
};

}  // namespace outrider
