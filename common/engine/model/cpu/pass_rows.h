// The rows that a pass still computes, with their residual stream: shows them to a tap, and drops
// those that a pruner rejects.
//
//   begin (show | prune)*
//
// Thread rule: the thread that runs the pass. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/model.h"

namespace outrider {

class PassRows final {
 public:
  // width: of the residual stream; stride: between two rows, at least width.
  PassRows(std::int64_t width, std::int64_t stride) : width_(width), stride_(stride) {}

  void begin(std::span<const Row> rows);

  std::span<const Row> rows() const { return rows_; }
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()); }
  float* residual(std::int64_t row) { return residual_.data() + row * stride_; }

  // Shows the rows that want logits; a dropped row is shown in its last state.
  void show(std::int32_t layer, LayerTap& tap, ThreadPool& threads);
  // Drops the rows that the pruner does not keep, and those that follow them. True if there are
  // any; then rows() and residual() are the remaining ones, and `places` maps their logits.
  bool prune(std::int32_t layer, RowPruner& pruner, ThreadPool& threads,
             std::vector<std::int32_t>& places);

 private:
  HiddenRows gather(std::int32_t layer, ThreadPool& threads);
  bool end_followers();
  void close_up(std::vector<std::int32_t>& places);

  const std::int64_t width_;
  const std::int64_t stride_;
  std::vector<Row> rows_;               // the remaining rows
  std::vector<std::int32_t> shown_at_;  // for each: its place in shown_, -1 if it wants no logits
  AlignedBuffer<float> residual_;       // [rows, stride]
  std::size_t wanted_ = 0;              // rows of the whole pass that want logits
  std::vector<float> shown_;            // [wanted_, width]
  std::vector<std::uint8_t> keep_;      // [wanted_], for the pruner
  std::vector<std::uint8_t> goes_on_;   // for each remaining row
};

}  // namespace outrider
