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
#include <stop_token>
#include <thread>

#include "common/base/mutex.h"
#include "common/http/exchange.h"
#include "common/openai/completion_answer.h"
#include "edge_client/generation/generator.h"

namespace outrider {

struct ServeJob {
  AnswerRequest request;
  AnswerName name;  // under which its client reads it; request.id is for logs
  bool stream = false;
  bool stream_usage = false;
  std::shared_ptr<HttpExchange> exchange;
};

class AnswerQueue final {
 public:
  // on_report: hears of each answer that ended, on the queue's thread.
  AnswerQueue(const GeneratorParts& parts, std::size_t max_waiting,
              std::function<void(const AnswerReport&)> on_report);
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // RESOURCE_EXHAUSTED if too many wait; then the job is not taken.
  Status submit(ServeJob job);

  std::size_t waiting();
  bool running();

 private:
  class Listener;

  void run();
  void watch();
  void answer(ServeJob& job);

  const std::size_t max_waiting_;
  const std::function<void(const AnswerReport&)> on_report_;
  std::unique_ptr<Listener> listener_;
  Generator generator_;

  Mutex mu_;
  CondVar changed_;
  std::deque<ServeJob> waiting_ OUTRIDER_GUARDED_BY(mu_);
  std::shared_ptr<HttpExchange> current_ OUTRIDER_GUARDED_BY(mu_);
  std::stop_source stop_current_ OUTRIDER_GUARDED_BY(mu_);
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread worker_;
  std::thread watcher_;
};

}  // namespace outrider
