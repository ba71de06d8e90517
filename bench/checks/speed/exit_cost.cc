// SPDX-License-Identifier: Apache-2.0
#include "bench/checks/speed/exit_cost.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "bench/stats/statistics.h"
#include "common/base/clock.h"
#include "common/decoding/exits/find_exits.h"
#include "common/decoding/verify/scheduling/scheduler.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {
namespace {

constexpr Position kPrompt = 96;

// One session that drafts chains of tokens, mostly wrong ones, like a draft of a random model.
class ChainSession final {
 public:
  ChainSession(Scheduler& scheduler, StreamId stream, bool wants_exits, const TimedPasses& options)
      : scheduler_(scheduler), stream_(stream), wants_exits_(wants_exits), options_(options) {
    open();
  }

  // Milliseconds of one pass.
  double pass() {
    if (scheduler_.session(stream_) == nullptr) {  // the model has ended its answer
      stream_ += 2;
      open();
    }
    send_chain();
    return turn();
  }

  std::uint32_t reports() const { return reports_; }

 private:
  // Opens the stream and runs its prefill while no other stream waits for the device.
  void open() {
    Open open;
    for (Position i = 0; i < kPrompt; ++i) open.prefix.push_back(static_cast<TokenId>(i % 50));
    open.end_position = kPrompt + Position{options_.rows + 1} * (options_.passes + 2);
    open.policy.wants_exits = wants_exits_;
    acked_reports_ = 0;
    channel_ =
        std::make_shared<ExitReportChannel>(ReportQueue::kGain, [this](const ExitReport& report) {
          acked_reports_ = report.seq;
          ++reports_;
        });
    scheduler_.connect(stream_, std::to_string(stream_), clock_.now(), {.reports = channel_});
    receive({.body = std::move(open)});
    turn();
  }

  double turn() {
    OUTRIDER_CHECK(scheduler_.start(clock_.now()) && scheduler_.last_served().front() == stream_);
    const TimePoint start = clock_.now();
    scheduler_.compute();
    const double ms = to_ms(clock_.now() - start);
    scheduler_.finish(clock_.now());
    scheduler_.take_events();
    return ms;
  }

  void send_chain() {
    const VerifySession& session = *scheduler_.session(stream_);
    const Position end = session.tree().end();
    Grow grow{session.tree().ids().next_id(), end, {}};
    for (int i = 0; i + 1 < options_.rows; ++i) {
      const auto token = static_cast<TokenId>((end * 31 + Position{i} * 7) % 997);
      grow.nodes.push_back({token, i == 0 ? 0u : 1u, 255});
    }
    receive({end, acked_reports_, std::move(grow)});
  }

  void receive(const EdgeMessage& message) {
    channel_->acknowledge(message);
    scheduler_.receive(stream_, message, clock_.now());
  }

  Scheduler& scheduler_;
  StreamId stream_;  // odd ids for one session, even ones for the other
  const bool wants_exits_;
  const TimedPasses& options_;
  SystemClock clock_;
  std::shared_ptr<ExitReportChannel> channel_;  // of the open stream
  std::uint32_t acked_reports_ = 0;             // of the open stream
  std::uint32_t reports_ = 0;                   // of all streams
};

}  // namespace

ExitTimes time_exits(Model& model, ExitHeads& exits, const TimedPasses& passes) {
  SchedulerOptions scheduling;
  scheduling.max_positions = kPrompt + Position{passes.rows + 1} * (passes.passes + 3);
  scheduling.exits = &exits;
  Scheduler scheduler(model, scheduling);
  ChainSession with(scheduler, 1, true, passes);
  ExitTimes times;
  ChainSession without(scheduler, 2, false, passes);
  for (int i = 0; i < passes.passes; ++i) {
    times.with_ms.push_back(with.pass());
    times.without_ms.push_back(without.pass());
  }
  times.reports = with.reports();
  return times;
}

Result<double> measure_exit_cost(const GridFlags& flags, int threads) {
  if (flags.plan.device != "cpu") {
    return invalid_argument("the cost of exits on --device " + flags.plan.device +
                            " cannot be measured here. Remedy: --exit-cost, how many times as long "
                            "a pass takes with exits");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const auto files, load_model_files(flags.plan.target, {}));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Model> model,
      make_cpu_model(files, {.dtype = flags.plan.dtype, .threads = threads, .progress = {}}));
  // Synthetic exits take no time to name outcomes, so they are charged the target's own cost.
  const std::string& wanted = flags.plan.exits == kSyntheticExits ? "auto" : flags.plan.exits;
  OUTRIDER_ASSIGN_OR_RETURN(
      const FoundExits exits,
      find_exits({.model = flags.plan.target, .exits = wanted}, model->info()));
  if (exits.heads == nullptr) return 1.0;
  const ExitTimes times = time_exits(*model, *exits.heads, {});
  const auto ratio = ratio_of_medians(times.without_ms, times.with_ms);
  if (!ratio) return failed_precondition("--exit-cost: the passes took no time to measure");
  const double cost = std::max(1.0, ratio->value);
  std::fprintf(stderr, "exit cost: %.3f, measured on %s\n", cost, flags.plan.target.c_str());
  return cost;
}

}  // namespace outrider
