// SPDX-License-Identifier: Apache-2.0
#include "edge_client/speculation/strategies.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace outrider {
namespace {

// A message that leaves less than this before the last moment may come too late.
constexpr Duration kSendSlack = std::chrono::milliseconds(1);

// Bounds of what the first token of a round saves, in draft steps: a draft step is worth more than
// its own time if it spares the verifier a wait.
constexpr double kMinSaves = 0.5;
constexpr double kMaxSaves = 4;

PlanChange change_of(const SpeculationPlan& plan) {
  return {.speculates = plan.speculates,
          .gamma = plan.gamma,
          .wait_for = plan.wait_for,
          .patience = plan.policy.patience,
          .fan_out = plan.fan_out,
          .exits = plan.policy.wants_exits,
          .reason = plan.reason};
}

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

RoundShape round_of(const SpeculationOptions& options) {
  return {.length = static_cast<std::size_t>(options.draft_length()),
          .branches = static_cast<std::size_t>(options.branches)};
}

std::unique_ptr<SpeculationStrategy> make_strategy(const SpeculationOptions& options,
                                                   std::shared_ptr<AnswerMemory> memory) {
  const StrategyChoice strategy = options.chosen();
  switch (strategy) {
    case Strategy::kAr:
      break;
    case Strategy::kSd:
      if (options.tree.kind != TreeKind::kChain || options.provisional.value_or(false)) {
        return std::make_unique<TreeStrategy>(
            options.tree, round_of(options),
            options.provisional.value_or(drafts_provisionally(options.tree.kind)),
            std::move(memory));
      }
      return std::make_unique<SdStrategy>(round_of(options), options.takes_turns);
    case Strategy::kFsd:
      return std::make_unique<FsdStrategy>(round_of(options), options.queue);
    case Strategy::kMirror:
      return std::make_unique<MirrorStrategy>(options);
    case Strategy::kGuest:
      return strategy.guest().make(options);
  }
  return std::make_unique<ArStrategy>();
}

// --- sd with trees ------------------------------------------------------------------------------

TreeStrategy::TreeStrategy(const TreeOptions& tree, const RoundShape& chain, bool provisional,
                           std::shared_ptr<AnswerMemory> memory)
    : tree_(tree),
      chain_(chain),
      provisional_(provisional),
      memory_(memory_or_new(std::move(memory))),
      planner_(make_planner(tree, memory_->trees, [memory = memory_.get()](std::size_t rows) {
        return to_ms(memory->draft_step.of(rows));
      })) {}

// The node that is likeliest to become text comes first, by the draft or by an exit.
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
void TreeStrategy::warm_start(const PairProfile& profile) {
  LatencyProfile& passes = memory_->trees.passes;
  if (passes.known()) return;
  for (const ShapeTime& shape : profile.passes) passes.restore(shape);
}

bool TreeStrategy::save_to(PairProfile& profile) const {
  profile.passes = memory_->trees.passes.shapes();
  profile.passes.resize(std::min(profile.passes.size(), PairProfile::kMaxPasses));
  return !profile.passes.empty();
}

// --- fsd ----------------------------------------------------------------------------------------

std::unique_ptr<GrowthPolicy> FsdStrategy::grow_ahead(const Timings& /*timings*/) const {
  if (!target_has_exits_) return nullptr;
  return std::make_unique<PredraftPolicy>(PredraftOptions{.gamma = static_cast<int>(round_.length),
                                                          .fan_out = 1,  // exits name corrections
                                                          .order = queue_,
                                                          .exits_only = true});
}

// --- mirror -------------------------------------------------------------------------------------

MirrorStrategy::MirrorStrategy(const SpeculationOptions& options)
    : queue_(options.queue),
      goal_(options.optimize),
      takes_turns_(options.takes_turns),
      controller_(options.optimize, options.draft_length(), options.fan_out, options.takes_turns) {}

std::size_t MirrorStrategy::wait_for() const {
  const int most = takes_turns_ ? controller_.longest_round() : plan().wait_for;
  return static_cast<std::size_t>(std::max(1, most));
}

std::unique_ptr<GrowthPolicy> MirrorStrategy::grow_round(const RoundShape& round) const {
  return std::make_unique<RoundPolicy>(round, plan().fan_out);
}

std::unique_ptr<GrowthPolicy> MirrorStrategy::grow_ahead(const Timings& timings) const {
  if (takes_turns_) return nullptr;
  const double step_ms = to_ms(timings.draft_step.of(1));
  const double saves = step_ms > 0 ? to_ms(timings.round_trip()) / step_ms : 0;
  return std::make_unique<PredraftPolicy>(
      PredraftOptions{.gamma = plan().gamma,
                      .fan_out = plan().fan_out,
                      .order = queue_,
                      .exits_only = false,
                      .first_saves = std::clamp(saves, kMinSaves, kMaxSaves)});
}

// A round is due when the next draft step would end too late for the pass that runs.
std::optional<AheadSelection> MirrorStrategy::select_ahead(const SendingView& view,
                                                           const Timings& timings) const {
  if (takes_turns_) return std::nullopt;
  // A server that is further than its last verdict says is reached only by longer rounds.
  const Duration per_token = controller_.per_token();
  const auto lead =
      per_token > Duration{0} ? static_cast<std::size_t>(timings.round_trip() / per_token) : 0;
  const RoundShape shape = round();
  const std::size_t whole = shape.length;
  const Duration pass = timings.pass_of(view.rows_in_flight + 1, plan().policy.wants_exits);
  const TimePoint last_moment = view.pass_origin + pass - kSendSlack;
  const bool next_step_is_late =
      timings.knows_passes() && view.now + timings.draft_step.of(1) >= last_moment;
  return AheadSelection{.limits = {.whole = whole,
                                   .least = goal_ == Optimize::kCost ? whole : 1,
                                   .due = !view.draft_works || next_step_is_late,
                                   .room = view.room,
                                   .link_room = view.link_room},
                        .round = {.most = whole + std::min(lead, 2 * whole),
                                  .least_chance = lead > 0 ? 0 : shape.least_chance}};
}

std::optional<PlanChange> MirrorStrategy::on_verdict(const VerdictReview& review,
                                                     const Timings& timings) {
  if (plan().speculates) {
    controller_.on_lookup(review.found, review.exits_looked, timings);
  }
  controller_.on_verdict(review.tokens, {.depth = review.depth, .stood = review.stood}, review.now);
  const SpeculationPlan before = plan();
  controller_.plan(timings);
  if (plan().same_course(before) && plan().reason == before.reason) return std::nullopt;
  return change_of(plan());
}

}  // namespace outrider
