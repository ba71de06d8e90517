// Trees of a given shape, the baselines of the tree policies: fixed widths by depth, as in
// SpecInfer (section 3), and the n likeliest nodes, as in OPT-Tree.
//
// Thread rule: pure; owned by the strategy. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "common/decoding/drafting/round_planner.h"
#include "common/decoding/drafting/trees/make_planner.h"

namespace outrider {

// A node of depth d has widths[d] children, the draft's best ones, and none beyond the list. If
// this exceeds max_nodes, only the first levels are grown.
class FixedWidths final : public RoundPlanner {
 public:
  explicit FixedWidths(std::vector<int> widths,
                       std::size_t max_nodes = std::numeric_limits<std::size_t>::max())
      : widths_(std::move(widths)), max_nodes_(max_nodes) {}

  int fan_out() const override {
    return widths_.empty() ? 1 : *std::max_element(widths_.begin(), widths_.end());
  }
  RoundPlan plan(const PlanView& view) override;

 private:
  const std::vector<int> widths_;
  const std::size_t max_nodes_;
};

// The `size` nodes with the largest products of confidences, at any depth.
class TopNodes final : public RoundPlanner {
 public:
  explicit TopNodes(std::size_t size) : size_(size) {}

  int fan_out() const override { return 4; }
  RoundPlan plan(const PlanView& view) override;

 private:
  const std::size_t size_;
};

// SpecInfer's expansion.
inline constexpr int kSpecInferWidths[] = {1, 1, 3, 1, 1, 1, 1, 1};

// Both as guest strategies beside our trees: "fixed" of these widths, "top-n". widths must outlive
// them.
std::vector<GuestTree> shaped_trees(const std::vector<int>& widths);
// Those of SpecInfer's widths; valid as long as the program runs.
const std::vector<GuestTree>& shaped_trees();

}  // namespace outrider
