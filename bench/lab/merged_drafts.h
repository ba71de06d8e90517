// SpecInfer's merged trees (Miao et al., section 3, "merge-based"): several small models each draft
// a chain, and the chains become one tree, with what they have in common once.
//
//   one     a b c         +-- a --+-- b -- c
//   other   a d      =>   |       +-- d
//
// A planner sees a tree, and a tree does not say which draft guessed what. So the pair is one model
// that names both guesses: the first draft's by a confidence of 2/3, the other's by 1/3, and what
// both guess by 1. In SpecInfer's favour, a row that both drafts run is charged once.
//
// Thread rule: as model.h; the planner is pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "common/decoding/drafting/round_planner.h"
#include "common/decoding/drafting/trees/make_planner.h"
#include "common/engine/model/model.h"

namespace outrider {

// For temperature 0.
class MergedDrafts final : public Model {
 public:
  // Both keep in a cache's pages what follows from the text alone, and so the same
  // (MemoizedModel); both outlive it.
  MergedDrafts(Model& one, Model& other) : one_(one), other_(other) {}

  const ModelInfo& info() const override { return one_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return one_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  Model& one_;
  Model& other_;
};

// Both drafts' chains of this length, merged, from what MergedDrafts guesses.
class MergedChains final : public RoundPlanner {
 public:
  explicit MergedChains(Position length) : length_(length) {}

  int fan_out() const override { return 2; }
  RoundPlan plan(const PlanView& view) override;

 private:
  const Position length_;
};

// "specinfer", with chains of eight (SpecInfer's depth). Valid as long as the program runs.
const GuestTree& merged_tree();

}  // namespace outrider
