// SPDX-License-Identifier: Apache-2.0
#include "common/verify/engine.h"

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/random_id.h"
#include "common/base/thread_pool.h"
#include "common/verify/engine_inbox.h"
#include "common/verify/reports/report_sender.h"
#include "common/verify/scheduler.h"
#include "common/verify/stream_sink.h"

namespace outrider {
struct VerifyEngine::Core {
  struct Stream {
    std::shared_ptr<StreamSink> sink;
    std::shared_ptr<ExitReportChannel> reports;
    std::string group;  // of its owner
  };

  Core(Model& model, const SchedulerOptions& options, Clock& its_clock)
      : clock(its_clock),
        report_queue(options.report_queue),
        on_session_end(options.on_session_end),
        scheduler(model, options) {
    if (options.exits != nullptr) report_sender.emplace();
  }

  void push(EngineInbox::Input input) OUTRIDER_REQUIRES(mu);
  bool idle() const OUTRIDER_REQUIRES(mu) {
    return !working && inbox.empty() && stats.sessions_open == 0;
  }
  std::optional<Stream> find(StreamId stream);  // nothing: it is gone
  void acknowledge_reports(StreamId stream, const EdgeMessage& message);
  void run();
  bool await_work(std::vector<EngineInbox::Input>& taken);
  void compute();
  void apply(EngineInbox::Input& input);
  void deliver();
  void publish();
  void end_all(const Status& status);

  // Constant after construction, or the compute thread's.
  Clock& clock;
  const ReportQueue report_queue;
  const std::function<void(const SessionRecord&)> on_session_end;
  Scheduler scheduler;
  std::thread thread;
  std::atomic<bool> abandoned{false};         // the pass that runs is nobody's any more
  std::optional<ReportSender> report_sender;  // if the target has exits

  Mutex mu;  // no sink is called with it held
  CondVar wake;
  CondVar rested;
  EngineInbox inbox OUTRIDER_GUARDED_BY(mu);
  std::map<StreamId, Stream> streams OUTRIDER_GUARDED_BY(mu);
  StreamId next_stream OUTRIDER_GUARDED_BY(mu) = 1;
  bool working OUTRIDER_GUARDED_BY(mu) = false;  // the compute thread holds inputs or runs a turn
  bool stopping OUTRIDER_GUARDED_BY(mu) = false;
  StreamId running OUTRIDER_GUARDED_BY(mu) = 0;  // whose pass runs; 0: no one's
  TimePoint working_since OUTRIDER_GUARDED_BY(mu){};
  SchedulerStats stats OUTRIDER_GUARDED_BY(mu);
};

VerifyEngine::VerifyEngine(Model& model, const SchedulerOptions& options, Clock& clock)
    : core_(std::make_unique<Core>(model, options, clock)) {
  core_->thread = std::thread([core = core_.get()] { core->run(); });
}

VerifyEngine::~VerifyEngine() {
  {
    const MutexLock lock(core_->mu);
    core_->stopping = true;
  }
  core_->wake.notify_one();
  core_->thread.join();
  core_->report_sender.reset();  // no sink runs any more
}

StreamId VerifyEngine::connect(EventSink sink, StreamOwner owner) {
  auto out = std::make_shared<StreamSink>(std::move(sink));
  auto reports = std::make_shared<ExitReportChannel>(
      core_->report_queue, core_->clock,
      [out](const ExitReport& report) { out->emit(ServerMessage(report)); });
  std::string session_id = random_id();  // who knows it may take over the session's KV
  const MutexLock lock(core_->mu);
  const StreamId stream = core_->next_stream++;
  core_->streams[stream] = {std::move(out), reports, owner.group};
  core_->push({stream, EngineInbox::Connected{std::move(session_id), std::move(reports),
                                              std::move(owner)}});
  return stream;
}

void VerifyEngine::post(StreamId stream, EdgeMessage message) {
  core_->acknowledge_reports(stream, message);
  const MutexLock lock(core_->mu);
  const auto at = core_->streams.find(stream);
  if (at == core_->streams.end()) return;
  core_->inbox.push_message(stream, at->second.group, std::move(message));
  core_->wake.notify_one();
}

std::optional<VerifyEngine::Core::Stream> VerifyEngine::Core::find(StreamId stream) {
  const MutexLock lock(mu);
  const auto at = streams.find(stream);
  return at == streams.end() ? std::nullopt : std::optional(at->second);
}

// At once, not when the pass is over: the window must open while there is still time to report.
void VerifyEngine::Core::acknowledge_reports(StreamId stream, const EdgeMessage& message) {
  std::optional<Stream> found = find(stream);
  if (!found || !found->reports->acknowledge(message) || !report_sender) return;
  report_sender->submit(std::move(found->reports));
}

void VerifyEngine::disconnect(StreamId stream) {
  std::shared_ptr<StreamSink> sink;
  {
    const MutexLock lock(core_->mu);
    const auto at = core_->streams.find(stream);
    if (at == core_->streams.end()) return;
    sink = std::move(at->second.sink);
    core_->streams.erase(at);
    if (core_->running == stream) core_->abandoned.store(true, std::memory_order_relaxed);
    core_->push({stream, EngineInbox::Disconnected{}});
  }
  sink->close();
}

void VerifyEngine::drain() {
  const MutexLock lock(core_->mu);
  core_->push({0, EngineInbox::Drain{}});
}

bool VerifyEngine::wait_until_idle(Duration at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  const MutexLock lock(core_->mu);
  while (!core_->idle()) {
    if (core_->rested.wait_until(core_->mu, until) == std::cv_status::timeout) return core_->idle();
  }
  return true;
}

SchedulerStats VerifyEngine::stats() const {
  const MutexLock lock(core_->mu);
  return core_->stats;
}

Duration VerifyEngine::running_for() const {
  const MutexLock lock(core_->mu);
  return core_->working ? core_->clock.now() - core_->working_since : Duration{0};
}

void VerifyEngine::fail_all(const Status& status) {
  core_->end_all(status);
}

void VerifyEngine::Core::push(EngineInbox::Input input) {
  inbox.push(std::move(input));
  wake.notify_one();
}

void VerifyEngine::Core::run() {
  begin_compute_thread();
  std::vector<EngineInbox::Input> taken;
  while (await_work(taken)) {
    for (EngineInbox::Input& input : taken) apply(input);
    taken.clear();
    scheduler.tick(clock.now());
    const bool turn = scheduler.start(clock.now());
    deliver();  // Started leaves before the device works
    if (turn) {
      compute();
      scheduler.finish(clock.now());
      deliver();
    }
    publish();
  }
  end_all(unavailable("this verifier has shut down"));
}

void VerifyEngine::Core::compute() {
  const std::optional<Stream> served = find(scheduler.last_served());
  {
    const MutexLock lock(mu);
    running = scheduler.last_served();
    abandoned.store(!streams.contains(running), std::memory_order_relaxed);
  }
  scheduler.compute(&abandoned, [&served](const Progress& progress) {
    if (served) served->sink->emit(ServerMessage(progress));
  });
  const MutexLock lock(mu);
  running = 0;
}

// Blocks until there are inputs, a session's time has come, or the end: then false.
bool VerifyEngine::Core::await_work(std::vector<EngineInbox::Input>& taken) {
  const std::optional<TimePoint> wake_at = scheduler.wake_at();
  const auto until =
      std::chrono::steady_clock::now() + (wake_at ? *wake_at - clock.now() : Duration{0});
  const MutexLock lock(mu);
  while (!stopping && inbox.empty()) {
    if (!wake_at) {
      wake.wait(mu);
    } else if (wake.wait_until(mu, until) == std::cv_status::timeout) {
      break;
    }
  }
  if (stopping) return false;
  working = true;
  working_since = clock.now();
  taken = inbox.take();
  return true;
}

void VerifyEngine::Core::apply(EngineInbox::Input& input) {
  const TimePoint now = clock.now();
  if (auto* connected = std::get_if<EngineInbox::Connected>(&input.what)) {
    scheduler.connect(input.stream, std::move(connected->session_id), now,
                      std::move(connected->reports), std::move(connected->owner));
  } else if (const auto* message = std::get_if<EdgeMessage>(&input.what)) {
    scheduler.receive(input.stream, *message, now);
  } else if (std::holds_alternative<EngineInbox::Disconnected>(input.what)) {
    scheduler.disconnect(input.stream, now);
  } else if (std::holds_alternative<EngineInbox::Drain>(input.what)) {
    scheduler.drain();
  } else {
    scheduler.end_stream(
        input.stream,
        resource_exhausted("messages come faster than they can be taken; at most " +
                           std::to_string(EngineInbox::kMaxMessages) + " may wait"),
        now);
  }
}

void VerifyEngine::Core::deliver() {
  for (StreamEvent& event : scheduler.take_events()) {
    const bool last = std::holds_alternative<StreamEnded>(event.event);
    const std::optional<Stream> found = find(event.stream);
    if (!found) continue;
    found->sink->emit(std::move(event.event));
    if (last) {  // erased only now, so that a disconnect() meanwhile waits for the sink
      const MutexLock lock(mu);
      streams.erase(event.stream);
    }
  }
  for (const SessionRecord& record : scheduler.take_records()) {
    if (on_session_end) on_session_end(record);
  }
}

void VerifyEngine::Core::publish() {
  const MutexLock lock(mu);
  stats = scheduler.stats();
  working = false;
  if (stats.sessions_open == 0) rested.notify_all();
}

void VerifyEngine::Core::end_all(const Status& status) {
  std::map<StreamId, Stream> left;
  {
    const MutexLock lock(mu);
    left.swap(streams);
    abandoned.store(true, std::memory_order_relaxed);
  }
  for (auto& [id, stream] : left) stream.sink->emit(StreamEnded{status});
}

}  // namespace outrider
