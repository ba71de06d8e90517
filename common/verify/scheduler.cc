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
      streams_(model, options),
      runner_(model, options.logits_on_demand),
      costs_(options.pass_costs) {
  if (options.exits != nullptr) probe_.emplace(*options.exits, options.exit_score);
  ExitHeads* const predictor = options.predictor != nullptr ? options.predictor : options.exits;
  if (predictor != nullptr && options.prune_below > 0) {
    pruner_.emplace(*predictor, options.prune_below, model.info().num_layers);
  }
  streams_.set_pass_limit(pass_limit_);
  streams_.set_pass_costs(costs_.costs());
}

void Scheduler::connect(StreamId stream, std::string session_id, TimePoint now,
                        std::shared_ptr<ExitReportChannel> reports, StreamOwner owner) {
  streams_.connect(stream, std::move(session_id), now, std::move(reports), std::move(owner));
}

void Scheduler::receive(StreamId stream, const EdgeMessage& message, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  streams_.receive(stream, message, now);
}

void Scheduler::disconnect(StreamId stream, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  streams_.disconnect(stream, now);
}

void Scheduler::end_stream(StreamId stream, const Status& status, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  streams_.end_stream(stream, status, now);
}

void Scheduler::tick(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  streams_.tick(now);
}

bool Scheduler::start(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  const auto next = streams_.next_turn(now);
  if (next == streams_.end()) return false;
  last_served_ = next->first;
  turn_ = Turn{next->first, next->second.start(now), now, Status(), joules()};
  streams_.flush(next->first, next->second);
  return true;
}

void Scheduler::compute(const std::atomic<bool>* abandoned, const ProgressSink& on_progress) {
  OUTRIDER_CHECK(turn_.has_value());
  runner_.watch(abandoned);
  turn_->status = streams_.find(turn_->stream)
                      ->second.compute(turn_->plan, runner_, probe_ ? &*probe_ : nullptr,
                                       pruner_ ? &*pruner_ : nullptr, on_progress);
}

void Scheduler::finish(TimePoint now) {
  OUTRIDER_CHECK(turn_.has_value());
  const Turn turn = *std::exchange(turn_, std::nullopt);
  const auto at = streams_.find(turn.stream);
  if (turn.status.code() == StatusCode::kInternal) ++failed_in_a_row_;
  if (!turn.status.ok()) return streams_.break_off(at, turn.status.with_context("pass"), now);
  failed_in_a_row_ = 0;
  const Duration took = now - turn.started;
  slowest_turn_ = std::max(took, slowest_turn_ - slowest_turn_ / kForgetOneIn);
  announce_pass_limit(now);
  const SchedulerOptions& options = streams_.options();
  if (options.on_rows) options.on_rows(at->second.name().owner.tenant, turn.plan.rows(), now);
  at->second.finish(runner_, took, now);
  const std::optional<double> used = turn.joules_before ? joules() : std::nullopt;
  at->second.add_joules(used ? std::optional(*used - *turn.joules_before) : std::nullopt);
  rows_ += turn.plan.rows();
  passes_ += turn.plan.decides ? 1 : 0;
  if (turn.plan.pass > 0) {  // pass 0 reads the prompt
    costs_.add(turn.plan.rows(), turn.plan.exits && probe_.has_value(), took);
    streams_.set_pass_costs(costs_.costs());
  }
  compute_ += took;
  streams_.finished_pass(at, turn.plan.decides, now);
}

// How long an edge may have to wait for a verdict: the longest pass, and the turns of the others.
void Scheduler::announce_pass_limit(TimePoint now) {
  if (pass_limit_ <= Duration{0}) return;
  const auto others = static_cast<std::int64_t>(streams_.longest_wait(now));
  streams_.set_pass_limit(pass_limit_ + slowest_turn_ * others);
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = streams_.stats();
  stats.passes = passes_;
  stats.failed_in_a_row = failed_in_a_row_;
  stats.rows = rows_;
  stats.compute = compute_;
  if (pruner_) stats.pruned = pruner_->counts();
  return stats;
}

}  // namespace outrider
