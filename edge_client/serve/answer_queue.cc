// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/answer_queue.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/serving/telemetry/log.h"
#include "edge_client/serve/answer_form.h"

namespace outrider {
namespace {

// How soon an answer that nobody waits for any more is ended.
constexpr Duration kWatchPoll = std::chrono::milliseconds(50);

TimePoint due(const AnswerRequest& request) {
  return request.came_at.value_or(TimePoint()) + due_within(request.config.wish.slo);
}

// Each by its index.
std::vector<PlaceSeeker> place_seekers(const std::deque<ServeJob>& waiting,
                                       const PlaceTurns& turns) {
  std::vector<PlaceSeeker> seekers;
  for (const ServeJob& job : waiting) {
    seekers.push_back({.stream = seekers.size(),
                       .group = job.group,
                       .waits = true,
                       .served = turns.last(job.group),
                       .since = job.request.came_at.value_or(TimePoint()),
                       .due = due(job.request)});
  }
  return seekers;
}

}  // namespace

std::size_t next_job(const std::deque<ServeJob>& waiting, const PlaceTurns& turns) {
  return *next_to_open(place_seekers(waiting, turns));
}

std::size_t last_job(const std::deque<ServeJob>& waiting) {
  return *last_to_open(place_seekers(waiting, {}));
}

// Passes on what is committed while a stream is answered, and what becomes of the link.
class AnswerQueue::Listener final : public AnswerListener {
 public:
  Listener(LinkWatch& link, const Clock& clock) : link_(link), clock_(clock) {}

  // The client of the answer that comes next; null if there is none.
  void set_client(CompletionResponder* client, const std::string& request_id, AnswerTrace* trace) {
    client_ = client;
    request_id_ = request_id;
    trace_ = trace;
  }

  void on_emit(const Emit& emit) override {
    if (client_ == nullptr) return;
    client_->show_prompt(emit.prompt_logprobs);
    client_->show(pieces_of(emit));
  }
  void on_say(const Say& say) override {
    const LogLevel level = say.level == Say::Level::kInfo ? LogLevel::kInfo : LogLevel::kWarning;
    log(level, say.line, {{"request_id", request_id_}});
    if (client_ != nullptr && say.level == Say::Level::kWarning) client_->comment(say.line);
  }
  void on_provisional(const Provisional& guess) override {
    if (client_ != nullptr && guess.by_deadline) client_->show_unverified(guess.text, guess.whole);
  }
  void on_prefill(const PrefillProgress& /*progress*/) override {}
  void on_connect(const Connect& connect) override {
    link_.on_connect(connect);
    if (trace_ != nullptr) trace_->on_connect(connect, clock_.now());
  }
  void on_event(const SessionEvent& event) override {
    link_.on_event(event);
    if (trace_ != nullptr) trace_->on_event(event, clock_.now());
  }
  void on_answer(const AnswerReport& report) { link_.on_finish(report.finish); }

 private:
  LinkWatch& link_;
  const Clock& clock_;
  CompletionResponder* client_ = nullptr;
  std::string request_id_;
  AnswerTrace* trace_ = nullptr;  // null: the answer is not traced
};

AnswerQueue::AnswerQueue(const GeneratorParts& parts, const QueueOptions& options, LinkWatch& link,
                         OnAnswer on_answer)
    : options_(options),
      clock_(parts.clock),
      link_(link),
      on_answer_(std::move(on_answer)),
      listener_(std::make_unique<Listener>(link, parts.clock)),
      generator_(parts, *listener_),
      worker_([this] { run(); }),
      watcher_([this] { watch(); }) {}

AnswerQueue::~AnswerQueue() {
  cut();
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  changed_.notify_all();
  worker_.join();
  watcher_.join();
}

Status AnswerQueue::submit(ServeJob job) {
  OUTRIDER_RETURN_IF_ERROR(generator_.check_level(job.request));
  std::optional<ServeJob> gives_way;
  Status full;
  {
    const MutexLock lock(mu_);
    if (draining_) return unavailable("this edge is shutting down; ask again in a while");
    if (is_full()) {
      full =
          resource_exhausted(std::to_string(waiting_.size()) + " requests wait already; try again");
    }
    waiting_.push_back(std::move(job));
    if (!full.ok()) {
      const auto last = waiting_.begin() + static_cast<std::ptrdiff_t>(last_job(waiting_));
      const bool is_new = std::next(last) == waiting_.end();
      gives_way = std::move(*last);
      waiting_.erase(last);
      if (is_new) return full;
    }
    waiting_.back().client->begin();
    changed_.notify_all();
  }
  if (gives_way) gives_way->client->fail(full);
  return {};
}

void AnswerQueue::drain() {
  const MutexLock lock(mu_);
  draining_ = true;
}

void AnswerQueue::cut() {
  const Status why = unavailable("this edge is shutting down; the answer was cut");
  std::deque<ServeJob> left;
  {
    const MutexLock lock(mu_);
    draining_ = true;
    if (current_ != nullptr) stop_current(why);
    left.swap(waiting_);
  }
  for (ServeJob& job : left) job.client->fail(why);
}

bool AnswerQueue::wait_until_idle(Duration at_most) {
  const TimePoint deadline = clock_.now() + at_most;
  const MutexLock lock(mu_);
  while (current_ != nullptr || !waiting_.empty()) {
    if (changed_.wait_until(mu_, deadline) == std::cv_status::timeout) break;
  }
  return current_ == nullptr && waiting_.empty();
}

std::size_t AnswerQueue::waiting() {
  const MutexLock lock(mu_);
  return waiting_.size();
}

bool AnswerQueue::running() {
  const MutexLock lock(mu_);
  return current_ != nullptr;
}

bool AnswerQueue::full() {
  const MutexLock lock(mu_);
  return is_full();
}

// The one that is answered next does not wait for another.
bool AnswerQueue::is_full() const {
  const std::size_t next = current_ == nullptr ? 1 : 0;
  return waiting_.size() >= options_.max_waiting + next;
}

bool AnswerQueue::hung() {
  const MutexLock lock(mu_);
  return current_ != nullptr && stopped_at_ && clock_.now() - *stopped_at_ > options_.stop_limit;
}

void AnswerQueue::stop_current(const Status& why) {
  if (!stop_current_.request_stop()) return;  // it was stopped before
  why_stopped_ = why;
  stopped_at_ = clock_.now();
}

void AnswerQueue::run() {
  while (true) {
    std::optional<ServeJob> job;
    {
      const MutexLock lock(mu_);
      while (!ending_ && waiting_.empty()) changed_.wait(mu_);
      if (ending_) return;
      const auto next = waiting_.begin() + static_cast<std::ptrdiff_t>(next_job(waiting_, turns_));
      job = std::move(*next);
      turns_.serve(job->group);
      waiting_.erase(next);
      current_ = job->client;
      stop_current_ = std::stop_source();
      stopped_at_.reset();
      why_stopped_ = {};
    }
    answer(*job);
    const MutexLock lock(mu_);
    current_ = nullptr;
    changed_.notify_all();
  }
}

void AnswerQueue::answer(ServeJob& job) {
  std::stop_token stop;
  {
    const MutexLock lock(mu_);
    stop = stop_current_.get_token();
  }
  const std::string request_id = job.request.id;
  if (job.trace != nullptr) job.trace->begin(clock_.now());
  listener_->set_client(job.client.get(), request_id, job.trace.get());
  job.request.record = job.client->wants_record();
  const Result<AnswerReport> report = generator_.answer(std::move(job.request), stop);
  listener_->set_client(nullptr, "", nullptr);
  if (job.trace != nullptr) job.trace->end(report, clock_.now());
  if (report.ok()) {
    listener_->on_answer(*report);
    on_answer_(request_id, *report);
  }
  Status status = report.ok() ? answer_status(*report) : report.status();
  {
    const MutexLock lock(mu_);
    if (!status.ok() && !why_stopped_.ok()) status = why_stopped_;
  }
  if (status.ok()) {
    job.client->end(end_of(*report, job.client->wants_figures()));
  } else {
    job.client->fail(status);
  }
}

// A client that disconnects while nothing is sent to it causes no event, so its socket is polled.
void AnswerQueue::watch() {
  const MutexLock lock(mu_);
  while (!ending_) {
    if (current_ == nullptr && waiting_.empty()) {
      changed_.wait(mu_);
    } else {
      changed_.wait_until(mu_, std::chrono::steady_clock::now() + kWatchPoll);
      watch_all();
    }
  }
}

void AnswerQueue::watch_all() {
  const std::optional<TimePoint> lost = link_.lost_since();
  const bool is_lost = lost && clock_.now() - *lost > options_.lost_limit;
  const Status why = unavailable("the server is out of reach, and there is no target here");
  if (current_ != nullptr) {
    report_silence();
    current_->keep_alive(options_.keep_alive);
    if (current_->client_is_gone()) stop_current(cancelled("its client is gone"));
    if (is_lost && !current_->is_stream()) stop_current(why);
  }
  std::erase_if(waiting_, [&](const ServeJob& job) {
    job.client->keep_alive(options_.keep_alive);
    if (job.client->client_is_gone()) {
      job.client->abandon();
    } else if (is_lost && !job.client->is_stream()) {
      job.client->fail(why);
    } else {
      return false;
    }
    return true;
  });
}

// Once for each silence.
void AnswerQueue::report_silence() {
  const std::optional<Duration> silence = link_.silence();
  if (silence && !has_reported_silence_) {
    current_->comment("link: the server has been silent for " +
                      std::to_string(static_cast<int>(to_seconds(*silence))) + " s");
  }
  has_reported_silence_ = silence.has_value();
}

}  // namespace outrider
