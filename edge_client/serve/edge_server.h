// The edge as an OpenAI server on localhost, and a page to chat in.
//
//   POST /v1/chat/completions  /v1/completions   answers, whole or streamed
//   POST /tokenize  /detokenize                  {"content": TEXT} to {"tokens": [..]} and back
//   GET  /v1/models  /metrics  /                 what there is, figures, the page
//   GET  /health/live  /health/ready  /version   health_page.h; ready: a target can be reached, and
//                                                a request may still wait
//   GET  /health                                 as ready, with the link and who decides as JSON
//   GET  /link                                   the same for pages, always with status 200
//
// Thread rule: start() and the destructor from one thread. Ownership: tokenizer and parts outlive
// it, as the probe does. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/address.h"
#include "common/base/status.h"
#include "common/http/health_page.h"
#include "common/http/server.h"
#include "edge_client/generation/generator.h"
#include "edge_client/serve/answer_queue.h"
#include "edge_client/serve/edge_metrics.h"
#include "edge_client/serve/link_watch.h"

namespace outrider {

struct EdgeServerOptions {
  Address listen = {"127.0.0.1", 8080};
  std::string model_name = {};     // as clients name it
  std::string chat_template = {};  // a name, or empty: the tokenizer's own
  AnswerConfig defaults = {};      // what requests do not name
  QueueOptions queue = {};
  LinkProbe* probe = nullptr;  // asks for the server between answers; null: nobody does
  std::string version = {};
};

class EdgeServer final {
 public:
  static Result<std::unique_ptr<EdgeServer>> start(const EdgeServerOptions& options,
                                                   const GeneratorParts& parts);

  const Address& address() const { return http_->address(); }
  // False if an answer does not end that was told to: only a new start helps.
  bool is_alive() { return !queue_.hung(); }

 private:
  struct Asked {
    std::string request_id;
    bool is_chat;
  };
  EdgeServer(EdgeServerOptions options, const GeneratorParts& parts);
  void on_request(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);
  Status complete(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange,
                  Asked as);
  HttpResponse page(const HttpRequest& request);
  Health health(const LinkWatch::View& link);
  HttpResponse state_page(const std::string& path);
  HttpResponse metrics_page();
  void on_answer(const std::string& request_id, const AnswerReport& report);

  const EdgeServerOptions options_;
  const Tokenizer& tokenizer_;
  EdgeMetrics metrics_;
  LinkWatch link_;
  AnswerQueue queue_;
  std::unique_ptr<HttpServer> http_;  // last: ends before what it uses
};

}  // namespace outrider
