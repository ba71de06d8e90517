// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_server.h"

#include <algorithm>
#include <string>
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

// Records the layer after which rows ended.
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
  // The emulated device computes a pass as one. So if the backend computed it in parts, each part
  // is shown through all layers.
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

SimServer::SimServer(Simulation& simulation, Model& model, const SchedulerOptions& options,
                     PassTime takes, double exit_cost, CountedDraft::StepTime draft_takes)
    : simulation_(simulation),
      device_(model),
      options_(with_counted(options, std::move(draft_takes))),
      takes_(std::move(takes)),
      exit_cost_(exit_cost),
      scheduler_(std::make_unique<Scheduler>(device_, options_)) {}

SchedulerOptions SimServer::with_counted(SchedulerOptions options, CountedDraft::StepTime takes) {
  if (options.draft_model == nullptr) return options;
  if (!takes) takes = [](std::size_t) { return Duration{0}; };
  draft_.emplace(*options.draft_model, simulation_.clock(), std::move(takes));
  options.draft_model = &*draft_;
  return options;
}

StreamId SimServer::connect(VerifyEngine::EventSink sink, StreamOwner owner) {
  const StreamId stream = next_stream_++;
  if (simulation_.now() < up_at_) {
    sink(StreamEnded{unavailable("connection refused")});
    return stream;
  }
  std::shared_ptr<ExitReportChannel> reports;
  if (options_.exits != nullptr) {
    reports = std::make_shared<ExitReportChannel>(
        options_.report_queue,
        [this, stream](const ExitReport& report) { send_report(stream, report); });
  }
  streams_[stream] = {std::move(sink), reports};
  apply([this, stream, reports, owner = std::move(owner)] {
    scheduler_->connect(stream, "session-" + std::to_string(stream), simulation_.now(),
                        {.reports = reports}, owner);
  });
  return stream;
}

// An acknowledgement applies at once, as in the engine: it must make room while there is still time
// to report.
void SimServer::post(StreamId stream, EdgeMessage message) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  if (at->second.reports != nullptr) at->second.reports->acknowledge(message);
  apply([this, stream, message = std::move(message)] {
    scheduler_->receive(stream, message, simulation_.now());
    show(stream);
  });
}

void SimServer::disconnect(StreamId stream) {
  if (streams_.erase(stream) == 0) return;
  apply([this, stream] { scheduler_->disconnect(stream); });
}

void SimServer::drain() {
  apply([this] { scheduler_->drain(); });
}

std::size_t SimServer::restart(Duration down) {
  const SchedulerStats stats = scheduler_->stats();
  reports_before_ += stats.reports_sent;
  ++process_;
  busy_ = false;
  waiting_.clear();
  device_.forget();
  scheduler_ = std::make_unique<Scheduler>(device_, options_);
  up_at_ = simulation_.now() + down;
  for (auto& [id, stream] : std::exchange(streams_, {})) {
    stream.sink(StreamEnded{unavailable("this verifier has shut down")});
  }
  return stats.sessions_open;
}

void SimServer::at(Duration delay, std::function<void()> event) {
  simulation_.after(delay, [this, process = process_, event = std::move(event)] {
    if (process == process_) event();
  });
}

void SimServer::apply(const std::function<void()>& input) {
  if (busy_) {
    waiting_.push_back(input);
    return;
  }
  input();
  go_on();
}

void SimServer::go_on() {
  scheduler_->tick(simulation_.now());
  if (!draft_) return begin_turn();
  scheduler_->draft(*draft_);
  const Duration drafted = draft_->take_counted();
  if (drafted == Duration{0}) return begin_turn();
  busy_drafts_.push_back({simulation_.now(), simulation_.now() + drafted});
  busy_ = true;
  ++timer_;  // what it waits for is over
  at(drafted, [this] { begin_turn(); });
}

void SimServer::begin_turn() {
  busy_ = scheduler_->start(simulation_.now());
  deliver();
  const std::uint64_t timer = ++timer_;
  if (busy_) return start_turn();
  if (!waiting_.empty()) {  // inputs came while it drafted
    for (const auto& input : std::exchange(waiting_, {})) input();
    return go_on();
  }
  const auto wake = scheduler_->wake_at();
  if (!wake) return;
  at(std::max(*wake - simulation_.now(), Duration{0}), [this, timer] {
    if (timer == timer_) go_on();
  });
}

void SimServer::start_turn() {
  device_.forget();
  const std::uint64_t scored = scheduler_->stats().pruned.rows_scored;
  if (draft_) scheduler_->draft_on(*draft_);
  const Duration drafted = draft_ ? draft_->take_counted() : Duration{0};
  scheduler_->compute();
  const PassRowCounts counts = row_counts(scored);
  Duration pass = counts.rows > 0 ? takes_(counts) : Duration{0};
  if (device_.layers() > 0) pass = from_ms(to_ms(pass) * exit_cost_);
  busy_passes_.push_back({simulation_.now(), simulation_.now() + pass});
  if (drafted > Duration{0}) {
    busy_drafts_.push_back({simulation_.now(), simulation_.now() + drafted});
  }
  for (std::size_t i = 0; i < device_.layers(); ++i) {
    at(pass * device_.layer(i) / device_.info().num_layers, [this, i] { device_.show(i); });
  }
  at(std::max(pass, drafted), [this] { finish_turn(); });
}

PassRowCounts SimServer::row_counts(std::uint64_t scored_before) const {
  PassRowCounts counts = device_.row_counts();
  const std::uint64_t scored = scheduler_->stats().pruned.rows_scored - scored_before;
  if (scored > 0) counts.heads.push_back({counts.pruned_after, scored});
  return counts;
}

void SimServer::send_report(StreamId stream, const ExitReport& report) {
  const auto at = streams_.find(stream);
  if (at != streams_.end()) at->second.sink(ServerMessage(report));
}

void SimServer::finish_turn() {
  scheduler_->finish(simulation_.now());
  for (const StreamId stream : scheduler_->last_served()) show(stream);
  deliver();
  busy_ = false;
  for (const auto& input : std::exchange(waiting_, {})) input();
  go_on();
}

void SimServer::deliver() {
  for (StreamEvent& event : scheduler_->take_events()) {
    const auto at = streams_.find(event.stream);
    if (at == streams_.end()) continue;
    const bool last = std::holds_alternative<StreamEnded>(event.event);
    at->second.sink(std::move(event.event));
    if (last) streams_.erase(event.stream);
  }
}

void SimServer::show(StreamId stream) {
  const VerifySession* session = scheduler_->session(stream);
  if (observe && session != nullptr) observe(stream, *session);
}

}  // namespace outrider
