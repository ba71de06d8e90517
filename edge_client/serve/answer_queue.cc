// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/answer_queue.h"

#include <chrono>
#include <string>
#include <utility>

#include "common/telemetry/log.h"
#include "edge_client/serve/answer_form.h"

namespace outrider {
namespace {

// How soon an answer that nobody waits for any more is ended.
constexpr Duration kWatchPoll = std::chrono::milliseconds(50);

}  // namespace

// Passes on what is committed while a stream is answered, and what becomes of the link.
class AnswerQueue::Listener final : public AnswerListener {
 public:
  explicit Listener(LinkWatch& link) : link_(link) {}

  void set_job(const ServeJob* job) {
    job_ = job;
    request_id_ = job != nullptr ? job->request.id : "";
  }

  void on_emit(const Emit& emit) override {
    if (job_ == nullptr || !job_->stream) return;
    const std::string event = text_event(job_->name, pieces_of(emit));
    if (!event.empty()) job_->exchange->write(event);
  }
  void on_say(const Say& say) override {
    const LogLevel level = say.level == Say::Level::kInfo ? LogLevel::kInfo : LogLevel::kWarning;
    log(level, say.line, {{"request_id", request_id_}});
  }
  void on_prefill(const PrefillProgress& /*progress*/) override {}
  void on_connect(const Connect& connect) override { link_.on_connect(connect); }
  void on_event(const SessionEvent& event) override { link_.on_event(event); }
  void on_answer(const AnswerReport& report) { link_.on_finish(report.finish); }

 private:
  LinkWatch& link_;
  const ServeJob* job_ = nullptr;
  std::string request_id_;  // the job's, which gives its request away
};

AnswerQueue::AnswerQueue(const GeneratorParts& parts, const QueueOptions& options, LinkWatch& link,
                         OnAnswer on_answer)
    : options_(options),
      clock_(parts.clock),
      on_answer_(std::move(on_answer)),
      listener_(std::make_unique<Listener>(link)),
      generator_(parts, *listener_),
      worker_([this] { run(); }),
      watcher_([this] { watch(); }) {}

AnswerQueue::~AnswerQueue() {
  std::deque<ServeJob> left;
  {
    const MutexLock lock(mu_);
    ending_ = true;
    stop_current();
    left.swap(waiting_);
  }
  changed_.notify_all();
  for (ServeJob& job : left) {
    job.exchange->respond(error_response(unavailable("this edge is shutting down")));
  }
  worker_.join();
  watcher_.join();
}

Status AnswerQueue::submit(ServeJob job) {
  const MutexLock lock(mu_);
  if (ending_) return unavailable("this edge is shutting down");
  if (is_full()) {
    return resource_exhausted(std::to_string(waiting_.size()) +
                              " requests wait already; try again");
  }
  waiting_.push_back(std::move(job));
  changed_.notify_all();
  return {};
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

void AnswerQueue::stop_current() {
  if (!stop_current_.request_stop()) return;  // it was told before
  stopped_at_ = clock_.now();
}

void AnswerQueue::run() {
  while (true) {
    std::optional<ServeJob> job;
    {
      const MutexLock lock(mu_);
      while (!ending_ && waiting_.empty()) changed_.wait(mu_);
      if (ending_) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      current_ = job->exchange;
      stop_current_ = std::stop_source();
      stopped_at_.reset();
    }
    answer(*job);
    const MutexLock lock(mu_);
    current_ = nullptr;
  }
}

void AnswerQueue::answer(ServeJob& job) {
  std::stop_token stop;
  {
    const MutexLock lock(mu_);
    stop = stop_current_.get_token();
  }
  if (job.stream) {
    job.exchange->begin({.status = 200,
                         .body = first_event(job.name),
                         .content_type = "text/event-stream",
                         .headers = {{"Cache-Control", "no-cache"}}});
  }
  listener_->set_job(&job);
  const std::string request_id = job.request.id;
  const Result<AnswerReport> report = generator_.answer(std::move(job.request), stop);
  listener_->set_job(nullptr);
  const Status status = report.ok() ? answer_status(*report) : report.status();
  if (report.ok()) {
    listener_->on_answer(*report);
    on_answer_(request_id, *report);
  }
  if (job.stream) {
    job.exchange->write(status.ok() ? last_events(job.name, end_of(*report), job.stream_usage)
                                    : error_event(status));
    job.exchange->end();
  } else if (status.ok()) {
    job.exchange->respond({.status = 200,
                           .body = whole_answer(job.name, report->text, end_of(*report)),
                           .content_type = "application/json"});
  } else {
    job.exchange->respond(error_response(status));
  }
}

// Nobody tells when a client goes away while nothing is sent to it, so it is looked at.
void AnswerQueue::watch() {
  while (true) {
    const MutexLock lock(mu_);
    changed_.wait_until(mu_, std::chrono::steady_clock::now() + kWatchPoll);
    if (ending_) return;
    if (current_ != nullptr && current_->client_is_gone()) stop_current();
    std::erase_if(waiting_, [](const ServeJob& job) {
      if (!job.exchange->client_is_gone()) return false;
      job.exchange->end();  // closes the connection
      return true;
    });
  }
}

}  // namespace outrider
