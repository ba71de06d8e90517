// Answers requests one after the other, as one draft and one link can: those that come meanwhile
// wait, and are bounded. A client that goes away gives up its place, or ends its answer.
//
// Thread rule: submit() from any thread; the generator is used by the queue's own. Ownership: the
// parts outlive it. The destructor cancels what runs and refuses what waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/mutex.h"
#include "common/http/exchange.h"
#include "common/openai/completion_answer.h"
#include "edge_client/generation/generator.h"
#include "edge_client/serve/link_watch.h"

namespace outrider {

struct ServeJob {
  AnswerRequest request;
  AnswerName name;  // under which its client reads it; request.id is for logs
  bool stream = false;
  bool stream_usage = false;
  std::shared_ptr<HttpExchange> exchange;
};

struct QueueOptions {
  std::size_t max_waiting = 32;
  // An answer that was told to end, and has not so long after, counts as hung.
  Duration stop_limit = std::chrono::seconds(30);
};

class AnswerQueue final {
 public:
  using OnAnswer = std::function<void(const std::string& request_id, const AnswerReport&)>;

  // link: is told of the answers' streams. on_answer: hears of each answer that ended. Both on the
  // queue's thread.
  AnswerQueue(const GeneratorParts& parts, const QueueOptions& options, LinkWatch& link,
              OnAnswer on_answer);
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // RESOURCE_EXHAUSTED if too many wait; then the job is not taken.
  Status submit(ServeJob job);

  std::size_t waiting();
  bool running();
  bool full();
  bool hung();

 private:
  class Listener;

  void run();
  void watch();
  void answer(ServeJob& job);

  void stop_current() OUTRIDER_REQUIRES(mu_);
  bool is_full() const OUTRIDER_REQUIRES(mu_);

  const QueueOptions options_;
  const Clock& clock_;
  const OnAnswer on_answer_;
  std::unique_ptr<Listener> listener_;
  Generator generator_;

  Mutex mu_;
  CondVar changed_;
  std::deque<ServeJob> waiting_ OUTRIDER_GUARDED_BY(mu_);
  std::shared_ptr<HttpExchange> current_ OUTRIDER_GUARDED_BY(mu_);
  std::stop_source stop_current_ OUTRIDER_GUARDED_BY(mu_);
  std::optional<TimePoint> stopped_at_ OUTRIDER_GUARDED_BY(mu_);  // nothing: it may go on
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread worker_;
  std::thread watcher_;
};

}  // namespace outrider
