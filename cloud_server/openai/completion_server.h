// The server's OpenAI routes (common/openai/routes.h), for clients that have no draft: the target
// decodes alone, by the same scheduler as for edges.
//
// Where there are keys, one is asked for: Authorization: Bearer KEY. A request is a session of its
// tenant. Thread rule: the routes' functions on the HTTP server's thread. Ownership: all parts
// outlive it, and it outlives its routes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "cloud_server/faults/fault_log.h"
#include "common/base/clock.h"
#include "common/http/routes.h"
#include "common/openai/routes.h"
#include "common/text/tokenizer.h"
#include "common/verify/engine.h"

namespace outrider {

struct CompletionServerOptions {
  std::string model_name;  // as clients name it
  std::string tokenizer_hash;
  ChatSource chat = {};                    // the target's
  Position context = 0;                    // tokens of prompt and answer
  Authenticator* authenticator = nullptr;  // null: nobody is asked for a key
  Tenants* tenants = nullptr;              // whose quotas hold; null: nobody's
  // A stream has a comment after so long without anything else, while its prompt is computed.
  Duration keep_alive = std::chrono::seconds(5);
};

class CompletionServer final {
 public:
  CompletionServer(VerifyEngine& engine, const Tokenizer& tokenizer, FaultLog& faults,
                   CompletionServerOptions options)
      : engine_(engine), tokenizer_(tokenizer), faults_(faults), options_(std::move(options)) {}

  std::vector<HttpRoute> routes();

 private:
  Status check_key(HttpRequest& request) const;
  Status complete(CompletionCall call);

  VerifyEngine& engine_;
  const Tokenizer& tokenizer_;
  FaultLog& faults_;
  const CompletionServerOptions options_;
};

}  // namespace outrider
