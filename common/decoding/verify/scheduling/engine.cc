// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
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
#include "common/decoding/verify/scheduling/scheduler.h"

namespace outrider {

void EngineInbox::push_message(StreamId stream, const std::string& group, EdgeMessage message) {
  Waiting& waiting = waiting_[stream];
  if (waiting.overflowed || supersede_acknowledgement(stream, message)) return;
  const std::size_t size = sizeof(Input) + size_in_memory(message);
  waiting.messages += std::holds_alternative<Prefix>(message.body) ? 0 : 1;
  waiting.bytes += size;
  shares_.add(stream, group, size);
  push({stream, std::move(message)});
  if (waiting.messages > kMaxMessages || waiting.bytes > kMaxBytes) overflow(stream);
  while (const std::optional<StreamId> most = shares_.beyond(group)) overflow(*most);
}

void EngineInbox::overflow(StreamId stream) {
  waiting_[stream].overflowed = true;
  shares_.remove(stream);
  std::erase_if(inputs_, [&](const Input& input) {
    return input.stream == stream && std::holds_alternative<EdgeMessage>(input.what);
  });
  push({stream, Overflow{}});
}

// An edge may acknowledge every verdict of an eager stream, faster than a busy device looks: of
// acknowledgements that wait side by side only the newest counts.
bool EngineInbox::supersede_acknowledgement(StreamId stream, const EdgeMessage& message) {
  if (!std::holds_alternative<AckOnly>(message.body)) return false;
  const auto last = std::find_if(inputs_.rbegin(), inputs_.rend(),
                                 [&](const Input& input) { return input.stream == stream; });
  if (last == inputs_.rend()) return false;
  auto* waiting = std::get_if<EdgeMessage>(&last->what);
  if (waiting == nullptr || !std::holds_alternative<AckOnly>(waiting->body)) return false;
  *waiting = message;
  return true;
}

std::vector<EngineInbox::Input> EngineInbox::take() {
  waiting_.clear();
  shares_.clear();
  return std::exchange(inputs_, {});
}

// The way out of one stream: events go to its owner's function in order, until it is closed or has
// carried StreamEnded.
//
// Thread rule: any thread; the function is called by one at a time. close() waits for a call that
// runs, so the function must not call it.
class VerifyEngine::StreamSink final {
 public:
  explicit StreamSink(EventSink function) : function_(std::move(function)) {}

  // Behind those that wait, for a flush().
  void put(VerifierEvent event) {
    const MutexLock lock(mu_);
    waiting_.push_back(std::move(event));
  }
  // Hands over what waits, unless another thread is at it: then that one does.
  void flush() { hand_over(nullptr); }
  void emit(VerifierEvent event) { hand_over(&event); }
  // No event comes after this returns.
  void close() {
    const MutexLock lock(mu_);
    closed_ = true;
    while (calling_) called_.wait(mu_);
  }

 private:
  // last: comes behind those that wait; may be null.
  void hand_over(VerifierEvent* last) {
    MutexLock lock(mu_);
    if (last != nullptr) waiting_.push_back(std::move(*last));
    if (calling_) return;
    calling_ = true;
    while (!closed_ && !waiting_.empty()) {
      VerifierEvent event = std::move(waiting_.front());
      waiting_.pop_front();
      closed_ = std::holds_alternative<StreamEnded>(event);
      lock.unlock();
      function_(std::move(event));
      lock.lock();
    }
    calling_ = false;
    if (closed_) called_.notify_all();
  }

  Mutex mu_;
  CondVar called_;
  std::deque<VerifierEvent> waiting_ OUTRIDER_GUARDED_BY(mu_);
  bool calling_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool closed_ OUTRIDER_GUARDED_BY(mu_) = false;
  const EventSink function_;
};

// A thread that works while the compute thread does: once more after each begin().
class VerifyEngine::BesideThread final {
 public:
  explicit BesideThread(std::function<void()> work)
      : work_(std::move(work)), thread_([this] { run(); }) {}
  ~BesideThread() {
    {
      const MutexLock lock(mu_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void begin() {
    {
      const MutexLock lock(mu_);
      ++begun_;
    }
    changed_.notify_all();
  }
  void wait() {
    const MutexLock lock(mu_);
    while (done_ != begun_) changed_.wait(mu_);
  }

 private:
  // Finishes the pass that was begun before it ends.
  void run() {
    MutexLock lock(mu_);
    while (true) {
      while (done_ == begun_ && !stopping_) changed_.wait(mu_);
      if (done_ == begun_) return;
      const std::uint64_t begun = begun_;
      lock.unlock();
      work_();
      lock.lock();
      done_ = begun;
      changed_.notify_all();
    }
  }

  const std::function<void()> work_;
  Mutex mu_;
  CondVar changed_;
  std::uint64_t begun_ OUTRIDER_GUARDED_BY(mu_) = 0;
  std::uint64_t done_ OUTRIDER_GUARDED_BY(mu_) = 0;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

struct VerifyEngine::Core {
  struct Stream {
    std::shared_ptr<StreamSink> sink;
    std::shared_ptr<ExitReportChannel> reports;
    std::shared_ptr<std::atomic<bool>> abandoned;  // nobody wants its passes any more
    std::string group;                             // of its owner
  };

  Core(Model& model, const SchedulerOptions& its_options, Clock& its_clock)
      : clock(its_clock), options(its_options) {
    scheduler.emplace(model, options);
    if (!options.drafts_in_passes) return;
    drafts.emplace([this, computes = false]() mutable {
      if (!std::exchange(computes, true)) begin_compute_thread();
      scheduler->draft_on(clock);
    });
  }

  void push(EngineInbox::Input input) OUTRIDER_REQUIRES(mu);
  bool idle() const OUTRIDER_REQUIRES(mu) {
    return !working && inbox.empty() && stats.sessions_open == 0;
  }
  std::optional<Stream> find(StreamId stream);  // nothing: it is gone
  void run();
  bool await_work(std::vector<EngineInbox::Input>& taken);
  void apply(EngineInbox::Input& input);
  void deliver(bool beside);
  bool have_company() const { return scheduler->last_served().size() > 1; }
  bool is_device_wanted() const;
  void flush_sinks();
  void forget(StreamId stream);
  void take_turn();
  void publish();
  void end_all(const Status& status);

  // Constant after construction, or the compute thread's.
  Clock& clock;
  const SchedulerOptions options;
  std::atomic<StreamId> next_stream{1};
  std::optional<Scheduler> scheduler;  // always there
  std::optional<BesideThread> drafts;  // of the draft model's own cores
  std::thread thread;

  Mutex mu;  // no sink is called with it held
  CondVar wake;
  CondVar rested;
  EngineInbox inbox OUTRIDER_GUARDED_BY(mu);
  std::map<StreamId, Stream> streams OUTRIDER_GUARDED_BY(mu);
  bool working OUTRIDER_GUARDED_BY(mu) = false;  // the compute thread holds inputs or runs a turn
  bool stopping OUTRIDER_GUARDED_BY(mu) = false;
  TimePoint working_since OUTRIDER_GUARDED_BY(mu){};
  SchedulerStats stats OUTRIDER_GUARDED_BY(mu);

  Mutex sinks_mu;
  std::vector<std::shared_ptr<StreamSink>> sinks_to_flush OUTRIDER_GUARDED_BY(sinks_mu);
  BesideThread delivery{[this] { flush_sinks(); }};
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
}

StreamId VerifyEngine::connect(EventSink sink, StreamOwner owner) {
  const StreamId stream = core_->next_stream.fetch_add(1);
  // Erased only after the last event, so that a disconnect() meanwhile waits for the sink.
  auto out = std::make_shared<StreamSink>(
      [core = core_.get(), stream, sink = std::move(sink)](VerifierEvent event) {
        const bool is_last = std::holds_alternative<StreamEnded>(event);
        sink(std::move(event));
        if (is_last) core->forget(stream);
      });
  auto reports = std::make_shared<ExitReportChannel>(
      core_->options.report_queue,
      [out](const ExitReport& report) { out->emit(ServerMessage(report)); });
  auto abandoned = std::make_shared<std::atomic<bool>>(false);
  PassHooks hooks{
      .reports = reports,
      .on_progress = [out](const Progress& progress) { out->emit(ServerMessage(progress)); },
      .abandoned = abandoned};
  std::string session_id = random_id();  // who knows it may take over the session's KV
  const MutexLock lock(core_->mu);
  core_->streams[stream] = {std::move(out), std::move(reports), std::move(abandoned), owner.group};
  core_->push(
      {stream, EngineInbox::Connected{std::move(session_id), std::move(hooks), std::move(owner)}});
  return stream;
}

void VerifyEngine::post(StreamId stream, EdgeMessage message) {
  const MutexLock lock(core_->mu);
  const auto at = core_->streams.find(stream);
  if (at == core_->streams.end()) return;
  // At once, not when the pass is over: there must be room while there is still time to report.
  at->second.reports->acknowledge(message);
  core_->inbox.push_message(stream, at->second.group, std::move(message));
  core_->wake.notify_one();
}

std::optional<VerifyEngine::Core::Stream> VerifyEngine::Core::find(StreamId stream) {
  const MutexLock lock(mu);
  const auto at = streams.find(stream);
  return at == streams.end() ? std::nullopt : std::optional(at->second);
}

void VerifyEngine::disconnect(StreamId stream) {
  std::shared_ptr<StreamSink> sink;
  {
    const MutexLock lock(core_->mu);
    const auto at = core_->streams.find(stream);
    if (at == core_->streams.end()) return;
    sink = std::move(at->second.sink);
    at->second.abandoned->store(true, std::memory_order_relaxed);
    core_->streams.erase(at);
    core_->push({stream, EngineInbox::Disconnected{}});
  }
  sink->close();
}

void VerifyEngine::change_model(Model& model) {
  const MutexLock lock(core_->mu);
  OUTRIDER_CHECK(core_->streams.empty());
  core_->push({0, EngineInbox::ModelChanged{&model}});
}

void VerifyEngine::begin_pruning_with(const std::array<double, 3>& weights) {
  const MutexLock lock(core_->mu);
  core_->push({0, EngineInbox::EdgesLearnt{weights}});
}

void VerifyEngine::drain() {
  const MutexLock lock(core_->mu);
  core_->push({0, EngineInbox::Drain{}});
}

bool VerifyEngine::wait_until_idle(Duration at_most) {
  const auto until = std::chrono::steady_clock::now() + at_most;
  {
    const MutexLock lock(core_->mu);
    while (!core_->idle()) {
      const bool late = core_->rested.wait_until(core_->mu, until) == std::cv_status::timeout;
      if (late && !core_->idle()) return false;
    }
  }
  core_->delivery.wait();
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
    scheduler->tick(clock.now());
    take_turn();
    deliver(have_company() && is_device_wanted());
    scheduler->learn();  // while they are on their way
    publish();
  }
  end_all(unavailable("this verifier has shut down"));
}

void VerifyEngine::Core::take_turn() {
  scheduler->draft(clock);
  if (!scheduler->start(clock.now())) return;
  deliver(have_company());  // Started leaves before the device works
  if (drafts) drafts->begin();
  scheduler->compute();
  if (drafts) drafts->wait();
  scheduler->finish(clock.now());
}

bool VerifyEngine::Core::is_device_wanted() const {
  const std::optional<TimePoint> at = scheduler->wake_at();
  return at && *at <= clock.now();
}

// Blocks until there are inputs, a session's time has come, or the end: then false.
bool VerifyEngine::Core::await_work(std::vector<EngineInbox::Input>& taken) {
  const std::optional<TimePoint> wake_at = scheduler->wake_at();
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
    scheduler->connect(input.stream, std::move(connected->session_id), now,
                       std::move(connected->hooks), std::move(connected->owner));
  } else if (const auto* message = std::get_if<EdgeMessage>(&input.what)) {
    scheduler->receive(input.stream, *message, now);
  } else if (std::holds_alternative<EngineInbox::Disconnected>(input.what)) {
    scheduler->disconnect(input.stream, now);
  } else if (std::holds_alternative<EngineInbox::Drain>(input.what)) {
    scheduler->drain();
  } else if (const auto* changed = std::get_if<EngineInbox::ModelChanged>(&input.what)) {
    deliver(false);  // its last records
    scheduler.emplace(*changed->model, options);
  } else if (const auto* learnt = std::get_if<EngineInbox::EdgesLearnt>(&input.what)) {
    scheduler->begin_pruning_with(learnt->weights);
  } else {
    scheduler->end_stream(
        input.stream,
        resource_exhausted("messages come faster than they can be taken; at most " +
                           std::to_string(EngineInbox::kMaxMessages) + " may wait"),
        now);
  }
}

// beside: the delivery thread hands them over, because the device is wanted meanwhile. A lone
// session's events leave here: that takes no longer than waking the thread.
void VerifyEngine::Core::deliver(bool beside) {
  std::vector<std::shared_ptr<StreamSink>> sinks;
  for (StreamEvent& event : scheduler->take_events()) {
    const std::optional<Stream> found = find(event.stream);
    if (!found) continue;
    if (!beside) {
      found->sink->emit(std::move(event.event));
      continue;
    }
    found->sink->put(std::move(event.event));
    sinks.push_back(found->sink);
  }
  if (!sinks.empty()) {
    {
      const MutexLock lock(sinks_mu);
      sinks_to_flush.insert(sinks_to_flush.end(), sinks.begin(), sinks.end());
    }
    delivery.begin();
  }
  for (const SessionRecord& record : scheduler->take_records()) {
    if (options.on_session_end) options.on_session_end(record);
  }
}

void VerifyEngine::Core::flush_sinks() {
  std::vector<std::shared_ptr<StreamSink>> sinks;
  {
    const MutexLock lock(sinks_mu);
    sinks.swap(sinks_to_flush);
  }
  for (const auto& sink : sinks) sink->flush();
}

void VerifyEngine::Core::forget(StreamId stream) {
  const MutexLock lock(mu);
  streams.erase(stream);
}

void VerifyEngine::Core::publish() {
  const MutexLock lock(mu);
  stats = scheduler->stats();
  working = false;
  if (stats.sessions_open == 0) rested.notify_all();
}

void VerifyEngine::Core::end_all(const Status& status) {
  std::map<StreamId, Stream> left;
  {
    const MutexLock lock(mu);
    left.swap(streams);
    for (auto& [id, stream] : left) stream.abandoned->store(true, std::memory_order_relaxed);
  }
  for (auto& [id, stream] : left) stream.sink->emit(StreamEnded{status});
}

}  // namespace outrider
