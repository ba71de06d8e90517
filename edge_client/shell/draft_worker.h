// The draft model's own thread: takes one step at a time, gives back what it brought.
//
// Thread rule: submit() from one thread; `done` is called on the worker's thread and must not
// block. The model and the clock must outlive the worker; nobody else uses the model meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/mutex.h"
#include "common/decoding/drafting/draft_engine.h"

namespace outrider {

class DraftWorker final {
 public:
  using Done = std::function<void(Result<DraftStepDone>)>;

  explicit DraftWorker(std::unique_ptr<DraftEngine> engine);
  // Waits for the step that runs; its result is delivered.
  ~DraftWorker();
  DraftWorker(const DraftWorker&) = delete;
  DraftWorker& operator=(const DraftWorker&) = delete;

  // Calls DraftEngine::guess_beside(). Call it before the first submit().
  Status guess_beside(Model& second) { return engine_->guess_beside(second); }

  struct Job {
    DraftStep step;
    TokenChoice choice;
    Done done;
  };

  // Only when no step is out.
  void submit(Job job);
  // The rows of the step that is out are obsolete: it may end early. Thread of submit().
  void abandon() { abandoned_.store(true, std::memory_order_relaxed); }

  // DraftEngine::kv_usage() after the last step. Any thread.
  double kv_usage() const { return kv_usage_.load(std::memory_order_relaxed); }

 private:
  void work();

  const std::unique_ptr<DraftEngine> engine_;  // worker thread only
  std::atomic<bool> abandoned_{false};         // the step that is out
  std::atomic<double> kv_usage_{0};
  Mutex mu_;
  CondVar wake_;
  std::optional<Job> job_ OUTRIDER_GUARDED_BY(mu_);
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
