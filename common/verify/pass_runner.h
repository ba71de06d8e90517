// Executes the passes of sessions on a model, one at a time: slots for the plan's rows, the
// forward pass, the logits to choose from, and what stays in the KV cache afterwards.
//
//   (compute (demand* end_demands)? logits* keep)*
//
// Thread rule: the compute thread. Ownership: model and cache are the caller's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/model/model.h"
#include "common/verify/session.h"

namespace outrider {

// Who looks at a pass as it goes on; null: nobody.
struct PassWatchers {
  LayerTap* tap = nullptr;
  RowPruner* pruner = nullptr;
  std::function<void(std::int32_t done, std::int32_t layers)> on_layer_done = {};
};

class PassRunner final {
 public:
  // on_demand: a model may compute logits as they are asked for.
  explicit PassRunner(Model& model, bool on_demand = false) : model_(model) {
    output_.on_demand = on_demand;
  }

  // Runs the plan's rows. On an error the cache holds what it held before. DATA_LOSS for a row that
  // nothing can be chosen from.
  Status compute(const PassPlan& plan, KvCache& cache, const PassWatchers& watchers = {});

  // Passes end early once this is set (PassOutput::abandoned); null: they do not.
  void watch(const std::atomic<bool>* abandoned) { output_.abandoned = abandoned; }

  // Whether logits() needs demand() first, after this pass.
  bool demands() const { return output_.row_logits != nullptr; }
  // Computes the logits of rows, in Chooser's numbering. Errors: as compute().
  Status demand(std::span<const std::size_t> rows);
  // No more are wanted; those that were demanded stay.
  void end_demands() { output_.row_logits->end(); }

  // False if the row was ended in the middle of the pass. In Chooser's numbering.
  bool has_logits(std::size_t row) const { return output_.has_row(row); }
  // [vocab] f32, of a row in Chooser's numbering; only of a plan that decides.
  std::span<const float> logits(std::size_t row) const { return output_.row(row); }

  // Commits the plan's tokens and the path to node `leaf` (-1: no node); frees all other rows.
  void keep(std::int32_t leaf, KvCache& cache);

 private:
  Status append_rows(const PassPlan& plan, KvCache& cache);

  Model& model_;
  std::vector<Row> rows_;  // tokens, then nodes
  std::size_t num_tokens_ = 0;
  PassOutput output_;
};

}  // namespace outrider
