// The edge as an OpenAI server on localhost, and a page to chat in.
//
//   POST /v1/chat/completions  /v1/responses  /v1/messages
//        /v1/completions                         answers, whole or streamed
//   POST /tokenize  /detokenize                  {"content": TEXT} to {"tokens": [..]} and back
//   GET  /v1/models  /metrics  /                 what there is, figures, the page
//   GET  /health/live  /health/ready  /version   health_routes.h; ready: a target can be reached,
//   and
//                                                a request may still wait
//   GET  /health                                 as ready, with the link and who decides as JSON
//   GET  /link                                   the same for pages, always with status 200
//
// Thread rule: start() and the destructor from one thread. Ownership: tokenizer and parts outlive
// it, as the probe does. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/address.h"
#include "common/base/status.h"
#include "common/serving/http/health_routes.h"
#include "common/serving/http/server.h"
#include "common/serving/openai/routes.h"
#include "edge_client/generation/generator.h"
#include "edge_client/generation/target_chat.h"
#include "edge_client/report/jetson.h"
#include "edge_client/serve/answer_queue.h"
#include "edge_client/serve/edge_metrics.h"
#include "edge_client/serve/link_watch.h"

namespace outrider {

struct EdgeServerOptions {
  HttpServerOptions http = {.listen = {"127.0.0.1", 8080}};
  std::string served_name = {};          // of the model, as clients read it; empty: the target's
  std::string own_name = {};             // where the target does not send its own, and in metrics
  TargetChat* chat = nullptr;            // what conversations are written by; outlives the server
  Position context = 0;                  // of the target; 0: it is not known here
  std::vector<ServedLevel> levels = {};  // of an elastic target
  AnswerConfig defaults = {};            // what requests do not name
  AnswerReading reading = {};
  QueueOptions queue = {};
  // Why every answer fails, if it does, beside the link's reasons; empty: nothing is known that
  // could.
  std::function<Status()> check = {};
  LinkProbe* probe = nullptr;  // asks for the server between answers; null: nobody does
  std::string version = {};
  std::function<std::optional<JetsonFigures>()> device = [] { return read_jetson(); };
  Tracer* tracer = nullptr;  // outlives the server; null: nothing is traced
};

class EdgeServer final {
 public:
  static Result<std::unique_ptr<EdgeServer>> start(const EdgeServerOptions& options,
                                                   const GeneratorParts& parts);

  const Address& address() const { return http_->address(); }
  // The name that clients read, which is the target's; empty until it is known.
  std::string model_name();
  // False if an answer was to end and does not: only a restart helps.
  bool is_alive() { return !queue_.hung(); }
  // It is not ready any more and takes no more requests; those that are here go on.
  void drain();
  // Whether all of them have ended, at the latest after so long.
  bool wait_until_idle(Duration at_most) { return queue_.wait_until_idle(at_most); }
  // Whether what they said, to its last byte, has been sent within so long.
  bool wait_until_answered(Duration at_most) { return http_->wait_until_answered(at_most); }
  // Ends them with an error.
  void cut() { queue_.cut(); }

 private:
  EdgeServer(EdgeServerOptions options, const GeneratorParts& parts);
  std::vector<HttpRoute> routes();
  // For what requests do not name. UNAVAILABLE while the server's target has not said it.
  Result<CompletionParams> default_params();
  Status complete(CompletionCall call);
  TraceHeaders begin_trace(const CompletionCall& call, std::unique_ptr<AnswerTrace>& trace);
  Health health(const LinkWatch::View& link);
  HttpResponse state_page(const LinkWatch::View& view, bool status_says_so);
  // A page of the link's state, which is looked at for each request.
  HttpRoute link_route(const char* path, std::function<HttpResponse(const LinkWatch::View&)> page);
  HttpResponse metrics_page();
  std::optional<double> target_kv() const;
  void on_answer(const std::string& request_id, const AnswerReport& report);

  const EdgeServerOptions options_;
  const LocalDraft* const draft_;       // null: none
  const ElasticTarget* const elastic_;  // null: this device has no target, or it has no levels
  const VerifyEngine* const engine_;    // null: this device has no target, or it has levels
  const Tokenizer& tokenizer_;
  const Clock& clock_;
  std::atomic<bool> draining_{false};
  EdgeMetrics metrics_;
  LinkWatch link_;
  ConstraintCompiler* const constraints_;  // null: answers have no form
  AnswerQueue queue_;
  std::unique_ptr<HttpServer> http_;  // last: ends before what it uses
};

}  // namespace outrider
