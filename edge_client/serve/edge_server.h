// The edge as an OpenAI server on localhost, and a page to chat in.
//
//   POST /v1/chat/completions  /v1/completions   answers, whole or streamed
//   POST /tokenize                               {"content": TEXT} to {"tokens": [..]}
//   GET  /v1/models  /health  /metrics  /        what there is, how it is, the page
//
// Thread rule: start() and the destructor from one thread. Ownership: tokenizer and parts outlive
// it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/address.h"
#include "common/base/status.h"
#include "common/http/server.h"
#include "edge_client/generation/generator.h"
#include "edge_client/serve/answer_queue.h"
#include "edge_client/serve/edge_metrics.h"

namespace outrider {

struct EdgeServerOptions {
  Address listen = {"127.0.0.1", 8080};
  std::string model_name = {};     // as clients name it
  std::string chat_template = {};  // a name, or empty: the tokenizer's own
  AnswerConfig defaults = {};      // what requests do not name
  std::size_t max_waiting = 32;
};

class EdgeServer final {
 public:
  static Result<std::unique_ptr<EdgeServer>> start(const EdgeServerOptions& options,
                                                   const GeneratorParts& parts);

  const Address& address() const { return http_->address(); }

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

  const EdgeServerOptions options_;
  const Tokenizer& tokenizer_;
  EdgeMetrics metrics_;
  AnswerQueue queue_;
  std::unique_ptr<HttpServer> http_;  // last: ends before what it uses
};

}  // namespace outrider
