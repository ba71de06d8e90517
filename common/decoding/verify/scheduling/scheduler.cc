// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/scheduler.h"

#include <algorithm>

#include "common/base/thread_pool.h"

namespace outrider {
namespace {

// The slowest turn is forgotten by this part of it with every later one.
constexpr int kForgetOneIn = 64;

}  // namespace

Scheduler::Scheduler(Model& model, const SchedulerOptions& options)
    : vocab_size_(model.info().vocab_size),
      pass_limit_(options.pass_limit),
      joules_(options.joules),
      sessions_(model, options),
      runner_(model, options.logits_on_demand),
      costs_(options.pass_costs) {
  if (options.exits != nullptr) probe_.emplace(*options.exits, options.exit_score);
  ExitHeads* const predictor = options.predictor != nullptr ? options.predictor : options.exits;
  if (predictor != nullptr && options.prune_below > 0) {
    pruner_.emplace(*predictor, options.prune_below, model.info().num_layers, options.prune_rule,
                    options.prune_temperature);
  }
  if (options.draft_model != nullptr) {
    const ModelInfo& draft = options.draft_model->info();
    model_draft_.emplace(*options.draft_model, options.draft_experience,
                         part_of(options.kv, draft, model.info()), options.max_concurrent_sessions);
  }
  sessions_.set_pass_limit(pass_limit_);
  sessions_.set_pass_costs(costs_.costs());
}

void Scheduler::connect(StreamId stream, std::string session_id, TimePoint now, PassHooks hooks,
                        StreamOwner owner) {
  sessions_.connect(stream, std::move(session_id), now, std::move(hooks), std::move(owner));
  const auto at = sessions_.find(stream);
  if (at != sessions_.streams().end()) at->second.join(seating_.turns());
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
  learn();
  sessions_.tick(now);
  forget_drafts(now);
}

// Forgets the drafts of sessions that are over.
void Scheduler::forget_drafts(TimePoint now) {
  if (!model_draft_) return;
  model_draft_->forget([this](StreamId id) { return session(id) != nullptr; }, now);
}

void Scheduler::draft(const Clock& clock) {
  OUTRIDER_CHECK(!turn_);
  if (!model_draft_) return;
  const TimePoint begin = clock.now();
  const Status status = seating_.draft(*model_draft_, clock);
  drafted_ += clock.now() - begin;
  check_draft(status);
}

// After a failure nothing is lost but time: the target goes on without it.
void Scheduler::check_draft(const Status& status) {
  if (status.ok()) return;
  model_draft_.reset();
  if (sessions_.options().on_draft_failed) sessions_.options().on_draft_failed(status);
}

bool Scheduler::start(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  learn();
  sessions_.admit_waiting(now);
  std::vector<Rider> riders = seating_.next_pass(now);
  if (riders.empty()) return false;
  count_idle(riders, now);
  last_served_.clear();
  for (const Rider& rider : riders) {
    sessions_.flush(rider.stream, sessions_.find(rider.stream)->second);
    last_served_.push_back(rider.stream);
  }
  if (sessions_.options().drafts_in_passes) expect_pass(riders, now);
  turn_ = Turn{.riders = std::move(riders), .started = now, .joules_before = joules()};
  return true;
}

// For draft_on(), which must know when the pass ends and meet no session that is over.
void Scheduler::expect_pass(std::span<const Rider> riders, TimePoint now) {
  forget_drafts(now);  // of one that found no memory
  std::size_t rows = 0;
  for (const Rider& rider : riders) rows += rider.plan.rows();
  pass_ends_ = now + from_ms(1e3 * costs_.curve().time(rows));
  pass_over_.store(false, std::memory_order_relaxed);
}

void Scheduler::draft_on(const Clock& clock) {
  if (model_draft_ && sessions_.options().drafts_in_passes) {
    drafted_on_ = model_draft_->draft_on(pass_ends_, pass_over_, clock);
  }
}

void Scheduler::compute() {
  OUTRIDER_CHECK(turn_.has_value());
  std::vector<Rider>& riders = turn_->riders;
  runner_.place(riders);
  if (probe_) probe_->begin(vocab_size_);
  if (pruner_) pruner_->begin(vocab_size_);
  for (Rider& rider : riders) {
    if (!rider.status.ok()) continue;
    sessions_.find(rider.stream)
        ->second.watch(rider, probe_ ? &*probe_ : nullptr, pruner_ ? &*pruner_ : nullptr);
  }
  PassWatch watch;
  if (probe_ && probe_->watches_anybody()) watch.tap = &*probe_;
  if (pruner_) watch.pruner = &*pruner_;
  runner_.compute(riders, watch);
  for (Rider& rider : riders) {
    if (!rider.status.ok()) continue;
    rider.status = sessions_.find(rider.stream)->second.finish_rows(rider, runner_);
  }
  if (runner_.demands()) runner_.end_demands();
  pass_over_.store(true, std::memory_order_relaxed);
}

void Scheduler::finish(TimePoint now) {
  OUTRIDER_CHECK(turn_.has_value());
  Turn turn = *std::exchange(turn_, std::nullopt);
  last_end_ = now;
  check_draft(std::exchange(drafted_on_, {}));
  choose(turn.riders);
  const std::optional<double> used = turn.joules_before ? joules() : std::nullopt;
  TurnCost cost{.took = now - turn.started,
                .joules = used ? std::optional(*used - *turn.joules_before) : std::nullopt};
  for (const Rider& rider : turn.riders) cost.rows += rider.rows;
  seating_.charge(turn.riders);
  count_turn(turn, cost, now);
  for (const Rider& rider : turn.riders) finish_rider(rider, cost, now);
}

// Chooses for all riders before any verdict leaves: side by side, where the model has threads.
void Scheduler::choose(std::span<Rider> riders) {
  std::vector<std::pair<Rider*, VerifyStream*>> choosing;
  for (Rider& rider : riders) {
    if (!rider.status.ok()) continue;
    choosing.emplace_back(&rider, &sessions_.find(rider.stream)->second);
    choosing.back().second->score(rider, runner_);
  }
  const auto choose_some = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& [rider, stream] = choosing[static_cast<std::size_t>(i)];
      rider->status = stream->choose(*rider, runner_);
    }
  };
  if (runner_.threads() == nullptr) return choose_some(0, std::ssize(choosing));
  runner_.threads()->parallel_for(std::ssize(choosing), 1, choose_some);
}

void Scheduler::count_turn(const Turn& turn, const TurnCost& cost, TimePoint now) {
  const auto broke = [](const Rider& rider) {
    return rider.status.code() == StatusCode::kInternal;
  };
  const auto decided = [](const Rider& rider) { return rider.status.ok() && rider.plan.decides; };
  const auto well = [](const Rider& rider) { return rider.status.ok(); };
  // Pass 0 reads the prompt; one of several tokens reads the text again.
  const auto reads = [](const Rider& rider) {
    return rider.plan.pass == 0 || rider.plan.tokens.size() > 1;
  };
  const auto exits = [](const Rider& rider) { return rider.plan.exits; };
  const bool went_well = std::ranges::any_of(turn.riders, well);
  finished_turn_ = TurnFigures{.rows = cost.rows,
                               .took = cost.took,
                               .ended = now,
                               .went_well = went_well,
                               .reads = std::ranges::any_of(turn.riders, reads),
                               .exits = probe_ && std::ranges::any_of(turn.riders, exits)};
  if (std::ranges::any_of(turn.riders, broke)) ++failed_in_a_row_;
  if (!went_well) return;
  failed_in_a_row_ = 0;
  device_passes_ += std::ranges::any_of(turn.riders, decided) ? 1 : 0;
  slowest_turn_ = std::max(cost.took, slowest_turn_ - slowest_turn_ / kForgetOneIn);
  announce_pass_limit(now);
}

void Scheduler::learn() {
  const std::optional<TurnFigures> turn = std::exchange(finished_turn_, std::nullopt);
  if (!turn) return;
  seating_.learn(turn->rows, turn->reads, turn->took, turn->ended);
  if (!turn->went_well || turn->reads) return;
  costs_.add(turn->rows, turn->exits, turn->took);
  sessions_.set_pass_costs(costs_.costs());
}

void Scheduler::finish_rider(const Rider& rider, TurnCost& cost, TimePoint now) {
  const auto at = sessions_.find(rider.stream);
  // From one rider's end to the next, so that the shares of all are the whole.
  const auto until = [&](std::size_t rows) {
    return cost.took * static_cast<std::int64_t>(rows) / static_cast<std::int64_t>(cost.rows);
  };
  const std::size_t before = std::exchange(cost.rows_before, cost.rows_before + rider.rows);
  if (!rider.status.ok()) return sessions_.break_off(at, rider.status.with_context("pass"), now);
  const RiderTimes times{.took = cost.took,
                         .share = until(before + rider.rows) - until(before),
                         .rows = static_cast<std::uint32_t>(cost.rows)};
  const PassPlan& plan = rider.plan;
  const SchedulerOptions& options = sessions_.options();
  if (pruner_) at->second.show_choices(rider, *pruner_);
  if (options.on_rows) options.on_rows(at->second.name().owner.tenant, rider.rows, now);
  at->second.finish(rider, runner_, times, now);
  const double part = static_cast<double>(rider.rows) / static_cast<double>(cost.rows);
  at->second.add_joules(cost.joules ? std::optional(*cost.joules * part) : std::nullopt);
  rows_ += rider.rows;
  prompt_rows_ += plan.pass == 0 ? plan.tokens.size() : 0;
  passes_ += plan.decides ? 1 : 0;
  compute_ += times.share;
  sessions_.finished_pass(at, plan.decides, now);
}

// The device stood still since its last turn, except for what it drafted, and no longer than one of
// the riders has waited.
void Scheduler::count_idle(std::span<const Rider> riders, TimePoint now) {
  const Duration drafted = std::exchange(drafted_, Duration{0});
  if (last_end_ == TimePoint{}) return;
  Duration waited{0};
  for (const Rider& rider : riders) waited = std::max(waited, rider.plan.queued);
  idle_ += std::max(std::min(waited, now - last_end_) - drafted, Duration{0});
}

// How long an edge may have to wait for a verdict: the longest pass, and the turns of the others.
void Scheduler::announce_pass_limit(TimePoint now) {
  if (pass_limit_ <= Duration{0}) return;
  const auto others = static_cast<std::int64_t>(seating_.longest_wait(now));
  sessions_.set_pass_limit(pass_limit_ + slowest_turn_ * others);
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = sessions_.stats();
  stats.preemptions = seating_.preemptions();
  stats.passes = passes_;
  stats.device_passes = device_passes_;
  stats.failed_in_a_row = failed_in_a_row_;
  stats.rows = rows_;
  stats.prompt_rows = prompt_rows_;
  stats.compute = compute_;
  stats.idle = idle_;
  if (model_draft_) {
    stats.drafting = model_draft_->compute();
    stats.kv_bytes += model_draft_->kv_bytes();
    stats.kv_bytes_bound += model_draft_->kv_bytes_bound();
  }
  if (pruner_) {
    stats.pruned = pruner_->counts();
    stats.edge_weights = pruner_->learnt("");
  }
  return stats;
}

}  // namespace outrider
