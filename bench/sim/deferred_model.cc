// SPDX-License-Identifier: Apache-2.0
#include "bench/sim/deferred_model.h"

#include <algorithm>
#include <utility>

namespace outrider {

class DeferredModel::KeepingTap final : public LayerTap {
 public:
  KeepingTap(const LayerTap* tap, std::vector<Kept>& kept) : tap_(tap), kept_(kept) {}

  bool wants(std::int32_t layer) const override { return tap_->wants(layer); }
  void on_layer(const HiddenRows& rows) override {
    Kept& kept = kept_.emplace_back(Kept{rows, {}});
    kept.values.assign(rows.values, rows.values + rows.count * rows.width);
  }

 private:
  const LayerTap* const tap_;
  std::vector<Kept>& kept_;
};

// Notes after which layer rows were ended.
class DeferredModel::WatchingPruner final : public RowPruner {
 public:
  explicit WatchingPruner(RowPruner* pruner) : pruner_(pruner) {}

  bool wants(std::int32_t layer) const override { return pruner_->wants(layer); }
  void prune(const HiddenRows& rows, std::span<std::uint8_t> keep) override {
    pruner_->prune(rows, keep);
    looked_after = rows.layer;
    ended += static_cast<std::size_t>(std::ranges::count(keep, 0));
    if (ended > 0) after = rows.layer;
  }

  std::size_t ended = 0;
  std::int32_t after = 0, looked_after = 0;

 private:
  RowPruner* const pruner_;
};

void DeferredModel::forget() {
  row_counts_ = {};
  tap_ = nullptr;
  kept_.clear();
}

Status DeferredModel::forward(std::span<const Row> rows, PassOutput& out) {
  forget();
  if (failure_) {
    ++failed_passes_;
    return *std::exchange(failure_, std::nullopt);
  }
  tap_ = out.tap;
  KeepingTap keeping(tap_, kept_);
  if (tap_ != nullptr) out.tap = &keeping;
  WatchingPruner watching(out.pruner);
  RowPruner* const pruner = std::exchange(out.pruner, out.pruner != nullptr ? &watching : nullptr);
  const Status status = model_.forward(rows, out);
  out.tap = tap_;
  out.pruner = pruner;
  if (!status.ok()) {
    forget();
    return status;
  }
  // A pass that the backend computed in parts shows each part through all layers; the emulated
  // device computes it in one.
  std::ranges::stable_sort(kept_, {}, [](const Kept& one) { return one.rows.layer; });
  for (Kept& one : kept_) one.rows.values = one.values.data();
  row_counts_ = {.rows = rows.size(),
                 .left = rows.size() - watching.ended,
                 .ended_after = watching.after,
                 .pruned_after = watching.looked_after};
  for (const Kept& one : kept_) row_counts_.heads.push_back({one.rows.layer, one.rows.count});
  return {};
}

void DeferredModel::show(std::size_t index) const {
  tap_->on_layer(kept_[index].rows);
}

}  // namespace outrider
