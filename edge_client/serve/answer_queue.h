// Answers requests one after the other, as one draft and one link can: those that come meanwhile
// wait, and are bounded. Networks take turns; of one, the request that is due first is answered
// next. Where too many wait, the network of which most do gives way. A client that goes away gives
// up its place, or ends its answer.
//
// Thread rule: submit() from any thread; the generator is used by the queue's own. Ownership: the
// parts outlive it. The destructor cuts what is left.
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
#include "common/decoding/verify/scheduling/fairness.h"
#include "common/serving/openai/completion_responder.h"
#include "edge_client/generation/generator.h"
#include "edge_client/serve/answer_trace.h"
#include "edge_client/serve/link_watch.h"

namespace outrider {

struct ServeJob {
  AnswerRequest request;
  std::shared_ptr<CompletionResponder> client;
  std::string group = {};  // whose turn it takes: network_of() the client's address
  std::unique_ptr<AnswerTrace> trace = {};  // null: it is not traced
};

struct QueueOptions {
  std::size_t max_waiting = 32;
  // An answer that was to end, and has not ended so long after, counts as hung.
  Duration stop_limit = std::chrono::seconds(30);
  // Streams that wait have a comment after so long without anything else.
  Duration keep_alive = std::chrono::seconds(5);
  // A whole answer whose server is lost for so long is an error, as its client can get nothing
  // before.
  Duration lost_limit = std::chrono::milliseconds(1500);
};

// Which of the jobs that wait is answered next: of the group that was served longest ago the one
// that is due first, by its slo or else a minute after it came, so that its own group passes none
// by for longer; of equals the first. waiting: not empty, each with its came_at.
std::size_t next_job(const std::deque<ServeJob>& waiting, const PlaceTurns& turns = {});
// Which of them gives way where too many wait: the last of the group of which most do.
std::size_t last_job(const std::deque<ServeJob>& waiting);

class AnswerQueue final {
 public:
  using OnAnswer = std::function<void(const std::string& request_id, const AnswerReport&)>;

  // link: gets the events of the answers' streams. on_answer: called with each answer that ended.
  // Both on the queue's thread.
  AnswerQueue(const GeneratorParts& parts, const QueueOptions& options, LinkWatch& link,
              OnAnswer on_answer);
  ~AnswerQueue();
  AnswerQueue(const AnswerQueue&) = delete;
  AnswerQueue& operator=(const AnswerQueue&) = delete;

  // RESOURCE_EXHAUSTED if too many wait, unless one of a group of which more do gives way;
  // UNAVAILABLE while it drains; and those of Generator::check_level(). Then the job is not taken.
  Status submit(ServeJob job);

  // No job is taken any more; those that are here go on.
  void drain();
  // Ends what runs and what waits, with an error.
  void cut();
  // Whether nothing runs or waits, at the latest after so long.
  bool wait_until_idle(Duration at_most);

  std::size_t waiting();
  bool running();
  bool full();
  bool hung();

 private:
  class Listener;

  void run();
  void watch();
  void answer(ServeJob& job);

  void stop_current(const Status& why) OUTRIDER_REQUIRES(mu_);
  void watch_all() OUTRIDER_REQUIRES(mu_);
  void report_silence() OUTRIDER_REQUIRES(mu_);
  bool is_full() const OUTRIDER_REQUIRES(mu_);

  const QueueOptions options_;
  const Clock& clock_;
  LinkWatch& link_;
  const OnAnswer on_answer_;
  std::unique_ptr<Listener> listener_;
  Generator generator_;

  Mutex mu_;
  CondVar changed_;
  std::deque<ServeJob> waiting_ OUTRIDER_GUARDED_BY(mu_);
  PlaceTurns turns_ OUTRIDER_GUARDED_BY(mu_);
  std::shared_ptr<CompletionResponder> current_ OUTRIDER_GUARDED_BY(mu_);
  std::stop_source stop_current_ OUTRIDER_GUARDED_BY(mu_);
  std::optional<TimePoint> stopped_at_ OUTRIDER_GUARDED_BY(mu_);  // nothing: it may go on
  Status why_stopped_ OUTRIDER_GUARDED_BY(mu_);  // the answer's end, if it was stopped
  bool draining_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool has_reported_silence_ OUTRIDER_GUARDED_BY(mu_) =
      false;  // of the server, in this answer's stream
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread worker_;
  std::thread watcher_;
};

}  // namespace outrider
