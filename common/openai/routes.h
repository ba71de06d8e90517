// OpenAI's routes for any program that can answer a prompt, and two of llama.cpp's.
//
//   POST /v1/chat/completions  /v1/completions   answers, whole or streamed
//   GET  /v1/models  /v1/models/ID
//   POST /tokenize  /detokenize                  {"content": TEXT} to {"tokens": [..]} and back
//
// Thread rule: `complete` and `on_refused` are called on the HTTP server's second thread, `check`
// on its first; all must return soon. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/http/routes.h"
#include "common/openai/completion_request.h"
#include "common/openai/completion_responder.h"
#include "common/text/tokenizer.h"

namespace outrider {

// A request to be answered.
struct CompletionCall {
  const HttpRequest& request;
  CompletionParams params;
  EncodedPrompt prompt;
  std::shared_ptr<CompletionResponder> client;
};

// The program behind the routes.
struct OpenaiService {
  const Tokenizer* tokenizer = nullptr;     // outlives the routes
  std::function<std::string()> model_name;  // as clients read it now
  // What conversations are written by, asked with each of them; and the form or template of it that
  // was named, empty: the one that it means.
  std::function<Result<ChatSource>()> chat;
  std::string chat_template = {};
  CompletionParams defaults = {};  // what requests do not name
  HttpCheck check = {};            // of every route's head; empty: everybody is answered
  // Sees to the answer. After an error the client has been told nothing yet.
  std::function<Status(CompletionCall)> complete;
  // A request for an answer was refused; empty: nobody is told.
  std::function<void(const HttpRequest&, const Status&)> on_refused = {};
};
std::vector<HttpRoute> openai_routes(const OpenaiService& service);

HttpResponse json_response(const Json& json);

}  // namespace outrider
