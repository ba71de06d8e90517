// The verifying engine in a simulation: the real scheduler, sessions, exits and report channels,
// with events instead of threads. It has the interface of VerifyEngine.
//
// A pass is computed when it starts, as a draft before it, and takes the emulated device's time:
// each exit of layer l of L reports at l/L of it, and the verdict comes at its end.
//
// Thread rule: one thread. Ownership: simulation, model and exits outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/decoding/verify/scheduling/engine.h"
#include "common/decoding/verify/scheduling/scheduler.h"
#include "common/engine/model/model.h"
#include "sim/activity.h"
#include "sim/simulation.h"

namespace outrider {

// A model whose passes take no simulated time. forward() runs at once and stores what its tap would
// see. So each layer can be shown to the tap when the emulated pass gets there.
//
//   deferred.forget();
//   scheduler.compute();                            // forward() runs; the tap has seen nothing yet
//   for (i < deferred.layers()) deferred.show(i);   // each at its time, before the pass ends

// The work of a pass: the rows with which it began, and those that continued after a layer where
// some were ended.
struct PassRowCounts {
  std::size_t rows = 0;
  std::size_t left = 0;           // rows that continued to the end
  std::int32_t ended_after = 0;   // layers that the others went through
  std::int32_t pruned_after = 0;  // layers after which a pruner looked; 0: none did
  // Heads of exits: after how many layers, for how many rows.
  struct Head {
    std::int32_t layer = 0;
    std::size_t rows = 0;
  };
  std::vector<Head> heads = {};
};

class DeferredModel final : public Model {
 public:
  explicit DeferredModel(Model& model) : model_(model) {}

  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

  // Makes the next pass fail with this error.
  void fail_next_pass(Status status) { failure_ = std::move(status); }
  int failed_passes() const { return failed_passes_; }

  // The counts of the last pass since forget(); no rows if it failed or there was none.
  const PassRowCounts& row_counts() const { return row_counts_; }
  // The rows that its tap would see, by ascending layer.
  std::size_t layers() const { return kept_.size(); }
  std::int32_t layer(std::size_t index) const { return kept_[index].rows.layer; }
  void show(std::size_t index) const;
  void forget();

 private:
  struct Kept {
    HiddenRows rows;  // .values points into `values`
    std::vector<float> values;
  };
  class KeepingTap;
  class WatchingPruner;

  Model& model_;
  std::optional<Status> failure_;
  int failed_passes_ = 0;
  PassRowCounts row_counts_;
  LayerTap* tap_ = nullptr;
  std::vector<Kept> kept_;
};

// The draft model beside the target: its steps run at once, and are counted in simulated time.
class CountedDraft final : public Model, public Clock {
 public:
  using StepTime = std::function<Duration(std::size_t rows)>;

  CountedDraft(Model& model, const Clock& clock, StepTime takes)
      : model_(model), clock_(clock), takes_(std::move(takes)) {}

  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    counted_ += takes_(rows.size());
    return model_.forward(rows, out);
  }

  // The simulation's time, later by what is counted.
  TimePoint now() const override { return clock_.now() + counted_; }
  void sleep_until(TimePoint) override { OUTRIDER_CHECK(false); }
  Duration take_counted() { return std::exchange(counted_, Duration{0}); }

 private:
  Model& model_;
  const Clock& clock_;
  const StepTime takes_;
  Duration counted_{0};
};

class SimServer final {
 public:
  // The duration of a pass that starts now.
  using PassTime = std::function<Duration(const PassRowCounts& rows)>;

  // exit_cost: how many times as long a pass with exits takes. draft_takes: of a step of the
  // options' draft model, by rows; empty: no time.
  SimServer(Simulation& simulation, Model& model, const SchedulerOptions& options, PassTime takes,
            double exit_cost = 1, CountedDraft::StepTime draft_takes = {});

  StreamId connect(VerifyEngine::EventSink sink, StreamOwner owner = {});
  void post(StreamId stream, EdgeMessage message);
  void disconnect(StreamId stream);

  // Like SIGTERM: sessions may finish, new ones are refused until restart().
  void drain();
  // Ends every stream with UNAVAILABLE, refuses connections for this long, and restarts without any
  // session or cache. Returns the number of sessions that it broke.
  std::size_t restart(Duration down);
  // When it accepts connections again, or did.
  TimePoint up_at() const { return up_at_; }
  // Makes the next pass of the device fail.
  void fail_next_pass(Status status) { device_.fail_next_pass(std::move(status)); }
  int failed_passes() const { return device_.failed_passes(); }

  // Called with the stream's session after each applied message and each completed turn.
  std::function<void(StreamId, const VerifySession&)> observe;

  // Since the last restart.
  const Scheduler& scheduler() const { return *scheduler_; }
  // When passes, and the draft beside the target, were computed.
  const std::vector<BusySpan>& busy_passes() const { return busy_passes_; }
  const std::vector<BusySpan>& busy_drafts() const { return busy_drafts_; }
  // All exit reports sent.
  std::uint64_t reports_sent() const { return reports_before_ + scheduler_->stats().reports_sent; }

 private:
  struct Stream {
    VerifyEngine::EventSink sink;
    std::shared_ptr<ExitReportChannel> reports;
  };

  SchedulerOptions with_counted(SchedulerOptions options, CountedDraft::StepTime takes);
  void apply(const std::function<void()>& input);  // now, or when the device is done
  void go_on();
  void begin_turn();
  void start_turn();
  // The counts of the pass that was just computed. scored_before: rows that the pruner had already
  // scored.
  PassRowCounts row_counts(std::uint64_t scored_before) const;
  void finish_turn();
  void send_report(StreamId stream, const ExitReport& report);
  void deliver();
  void show(StreamId stream);
  void at(Duration delay, std::function<void()> event);

  Simulation& simulation_;
  DeferredModel device_;
  std::optional<CountedDraft> draft_;  // if there is one
  const SchedulerOptions options_;
  const PassTime takes_;
  const double exit_cost_;
  std::unique_ptr<Scheduler> scheduler_;
  std::map<StreamId, Stream> streams_;
  StreamId next_stream_ = 1;
  bool busy_ = false;
  std::vector<std::function<void()>> waiting_;  // inputs, while busy
  std::uint64_t timer_ = 0;                     // only the newest timer counts
  std::uint64_t process_ = 0;                   // events of an ended process have no effect
  TimePoint up_at_{};
  std::uint64_t reports_before_ = 0;
  std::vector<BusySpan> busy_passes_, busy_drafts_;
};

}  // namespace outrider
