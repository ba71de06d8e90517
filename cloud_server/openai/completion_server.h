// The server's OpenAI routes, for clients that have no draft: the target decodes alone, by the same
// scheduler as for edges.
//
//   POST /v1/chat/completions  /v1/completions   answers, whole or streamed
//   POST /tokenize                               {"content": TEXT} to {"tokens": [..]}
//   GET  /v1/models
//
// Where there are keys, one is asked for: Authorization: Bearer KEY. A request is a session of its
// tenant. Thread rule: handle() on the HTTP server's thread. Ownership: all parts outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "cloud_server/faults/fault_log.h"
#include "common/http/exchange.h"
#include "common/http/message.h"
#include "common/openai/completion_request.h"
#include "common/text/tokenizer.h"
#include "common/verify/engine.h"

namespace outrider {

struct CompletionServerOptions {
  std::string model_name;  // as clients name it
  std::string tokenizer_hash;
  Position context = 0;                    // tokens of prompt and answer
  Authenticator* authenticator = nullptr;  // null: nobody is asked for a key
  Tenants* tenants = nullptr;              // whose quotas hold; null: nobody's
};

class CompletionServer final {
 public:
  CompletionServer(VerifyEngine& engine, const Tokenizer& tokenizer, FaultLog& faults,
                   CompletionServerOptions options)
      : engine_(engine), tokenizer_(tokenizer), faults_(faults), options_(std::move(options)) {}

  // False: the path is none of these.
  bool handle(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);

 private:
  struct Asker {
    std::shared_ptr<const TenantKey> key;  // null where nobody is asked
    std::string request_id;
    std::string who;  // for the log
  };
  // Null where nobody is asked. Errors as Authenticator::find()'s.
  Result<std::shared_ptr<const TenantKey>> key_of(const HttpRequest& request) const;
  Status complete(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange,
                  const Asker& asker);
  void refuse(HttpExchange& exchange, const std::string& who, const Status& status);

  VerifyEngine& engine_;
  const Tokenizer& tokenizer_;
  FaultLog& faults_;
  const CompletionServerOptions options_;
};

}  // namespace outrider
