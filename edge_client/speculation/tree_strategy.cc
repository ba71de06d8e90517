// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/tree_strategy.h"

#include <limits>
#include <utility>

namespace outrider {
namespace {

std::shared_ptr<AnswerMemory> memory_or_new(std::shared_ptr<AnswerMemory> memory) {
  return memory != nullptr ? std::move(memory) : std::make_shared<AnswerMemory>();
}

// A further row is run along where it costs less than half of a step. Else the row that comes next
// is better chosen by what this one brings, and a verdict waits for no more than one.
std::size_t rows_of_step(const RowTimes& step) {
  const bool alone = step.of(2) - step.of(1) > step.of(1) / 2;
  return alone ? 1 : std::numeric_limits<std::size_t>::max();
}

}  // namespace

TreeStrategy::TreeStrategy(const TreeOptions& tree, const RoundShape& chain, bool provisional,
                           std::shared_ptr<AnswerMemory> memory)
    : tree_(tree),
      chain_(chain),
      provisional_(provisional),
      memory_(memory_or_new(std::move(memory))),
      planner_(make_planner(tree, memory_->trees, [memory = memory_.get()](std::size_t rows) {
        return to_ms(memory->draft_step.of(rows));
      })) {}

// What is likeliest to become text comes first, by the draft or by an exit.
std::unique_ptr<GrowthPolicy> TreeStrategy::grow_ahead(const Timings& timings) const {
  if (!provisional_ || rests()) return nullptr;
  return std::make_unique<PredraftPolicy>(
      PredraftOptions{.gamma = static_cast<int>(chain_.length),
                      .fan_out = planner_ != nullptr ? planner_->fan_out() : 1,
                      .order = QueueOrder::kPriority,
                      .exits_only = false,
                      .most_rows = rows_of_step(timings.draft_step)});
}

// Exits are evidence for ours alone: the papers' policies have none.
void TreeStrategy::on_target(bool has_exits) {
  wants_exits_ = has_exits && provisional_ && tree_.exits && tree_.kind == TreeKind::kOutrider;
}

std::optional<PlanChange> TreeStrategy::on_verdict(const VerdictReview& review,
                                                   const Timings& timings) {
  if (timings.draft_step.known()) memory_->draft_step = timings.draft_step;
  PassShape pass = review.pass;
  if (verdict_at_) pass.cycle_ms = to_ms(review.now - *verdict_at_);
  verdict_at_ = review.now;
  if (planner_ != nullptr) planner_->on_verdict(review.text, pass);
  return std::nullopt;
}

// The memory of this process knows better than a file.
void TreeStrategy::begin_with(const LearntPair& learnt) {
  LatencyProfile& passes = memory_->trees.passes;
  if (passes.known()) return;
  for (const LearntPass& pass : learnt.passes) {
    passes.restore({pass.rows, pass.leaves}, {.ms = pass.ms, .weight = pass.weight});
  }
}

bool TreeStrategy::teach(LearntPair& learnt) const {
  learnt.passes.clear();
  for (const auto& [shape, cell] : memory_->trees.passes.cells()) {
    if (learnt.passes.size() == LearntPair::kMaxPasses) break;
    learnt.passes.push_back({shape.first, shape.second, cell.ms, cell.weight});
  }
  return !learnt.passes.empty();
}

}  // namespace outrider
