// SPDX-License-Identifier: Apache-2.0
#include "common/verify/scheduler.h"

#include <algorithm>

namespace outrider {
namespace {

// The slowest turn is forgotten by this part of it with every later one.
constexpr int kForgetOneIn = 64;

}  // namespace

Scheduler::Scheduler(Model& model, const SchedulerOptions& options)
    : pass_limit_(options.pass_limit),
      joules_(options.joules),
      sessions_(model, options),
      runner_(model, options.logits_on_demand),
      costs_(options.pass_costs) {
  if (options.exits != nullptr) probe_.emplace(*options.exits, options.exit_score);
  ExitHeads* const predictor = options.predictor != nullptr ? options.predictor : options.exits;
  if (predictor != nullptr && options.prune_below > 0) {
    pruner_.emplace(*predictor, options.prune_below, model.info().num_layers);
  }
  sessions_.set_pass_limit(pass_limit_);
  sessions_.set_pass_costs(costs_.costs());
}

void Scheduler::connect(StreamId stream, std::string session_id, TimePoint now, PassHooks hooks,
                        StreamOwner owner) {
  sessions_.connect(stream, std::move(session_id), now, std::move(hooks), std::move(owner));
}

void Scheduler::receive(StreamId stream, const EdgeMessage& message, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  sessions_.receive(stream, message, now);
}

void Scheduler::disconnect(StreamId stream, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  sessions_.disconnect(stream, now);
}

void Scheduler::end_stream(StreamId stream, const Status& status, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  sessions_.end_stream(stream, status, now);
}

void Scheduler::tick(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  sessions_.tick(now);
}

bool Scheduler::step(const Clock& clock, const std::function<void()>& on_started) {
  if (!start(clock.now())) return false;
  on_started();
  compute();
  finish(clock.now());
  return true;
}

bool Scheduler::start(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  const auto next = sessions_.next_turn(now);
  if (next == sessions_.end()) return false;
  turn_ = Turn{.riders = {}, .started = now, .joules_before = joules()};
  turn_->riders.push_back(next->second.start(next->first, now));
  last_served_ = {next->first};
  sessions_.flush(next->first, next->second);
  return true;
}

void Scheduler::compute() {
  OUTRIDER_CHECK(turn_.has_value());
  for (Rider& rider : turn_->riders) {
    sessions_.find(rider.stream)
        ->second.watch(rider, probe_ ? &*probe_ : nullptr, pruner_ ? &*pruner_ : nullptr);
  }
  runner_.compute(turn_->riders);
  for (Rider& rider : turn_->riders) {
    if (!rider.status.ok()) continue;
    rider.status = sessions_.find(rider.stream)->second.finish_rows(rider, runner_);
  }
  if (runner_.demands()) runner_.end_demands();
}

void Scheduler::finish(TimePoint now) {
  OUTRIDER_CHECK(turn_.has_value());
  const Turn turn = *std::exchange(turn_, std::nullopt);
  for (const Rider& rider : turn.riders) finish_rider(turn, rider, now);
}

void Scheduler::finish_rider(const Turn& turn, const Rider& rider, TimePoint now) {
  const auto at = sessions_.find(rider.stream);
  if (rider.status.code() == StatusCode::kInternal) ++failed_in_a_row_;
  if (!rider.status.ok()) return sessions_.break_off(at, rider.status.with_context("pass"), now);
  failed_in_a_row_ = 0;
  const Duration took = now - turn.started;
  slowest_turn_ = std::max(took, slowest_turn_ - slowest_turn_ / kForgetOneIn);
  announce_pass_limit(now);
  const PassPlan& plan = rider.plan;
  const SchedulerOptions& options = sessions_.options();
  if (options.on_rows) options.on_rows(at->second.name().owner.tenant, plan.rows(), now);
  at->second.finish(rider, runner_, took, now);
  const std::optional<double> used = turn.joules_before ? joules() : std::nullopt;
  at->second.add_joules(used ? std::optional(*used - *turn.joules_before) : std::nullopt);
  rows_ += plan.rows();
  passes_ += plan.decides ? 1 : 0;
  if (plan.pass > 0) {  // pass 0 reads the prompt
    costs_.add(plan.rows(), plan.exits && probe_.has_value(), took);
    sessions_.set_pass_costs(costs_.costs());
  }
  compute_ += took;
  sessions_.finished_pass(at, plan.decides, now);
}

// How long an edge may have to wait for a verdict: the longest pass, and the turns of the others.
void Scheduler::announce_pass_limit(TimePoint now) {
  if (pass_limit_ <= Duration{0}) return;
  const auto others = static_cast<std::int64_t>(sessions_.longest_wait(now));
  sessions_.set_pass_limit(pass_limit_ + slowest_turn_ * others);
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = sessions_.stats();
  stats.passes = passes_;
  stats.failed_in_a_row = failed_in_a_row_;
  stats.rows = rows_;
  stats.compute = compute_;
  if (pruner_) stats.pruned = pruner_->counts();
  return stats;
}

}  // namespace outrider
