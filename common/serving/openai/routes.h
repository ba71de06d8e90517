// OpenAI's routes for any program that can answer a prompt, one of Anthropic's, and two of
// llama.cpp's.
//
//   POST /v1/chat/completions  /v1/responses
//        /v1/messages  /v1/completions           answers, whole or streamed
//   GET  /v1/models  /v1/models/ID
//   POST /tokenize  /detokenize                  token_routes.h
//   GET  /openapi.json                           their reference
//
// Thread rule: `complete` and `on_refused` are called on threads of the HTTP server's work queue,
// `check` on its own; all must return soon. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/http/routes.h"
#include "common/serving/openai/completion_request.h"
#include "common/serving/openai/completion_responder.h"
#include "common/serving/openai/request_prompt.h"

namespace outrider {

// A request to be answered.
struct CompletionCall {
  const HttpRequest& request;
  CompletionParams params;
  EncodedPrompt prompt;
  std::shared_ptr<CompletionResponder> client;
};

// A level of an elastic model (docs/elastic.md), and how far it is from the full one.
struct ServedLevel {
  std::string name;
  double divergence = 0;
  double agreement = 1;
  double quality = 1;  // of its answers, as LevelProfile says
};

// The program behind the routes.
struct OpenaiService {
  const Tokenizer* tokenizer = nullptr;     // outlives the routes
  std::function<std::string()> model_name;  // the name that clients read now
  // The source of chat templates, read for each conversation; and the name of the form or template
  // to use, empty: the source's default.
  std::function<Result<ChatSource>()> chat;
  std::string chat_template = {};
  AnswerReading reading = {};
  Position context = 0;                   // tokens of prompt and answer; 0: not known here
  std::size_t max_choices = kMaxChoices;  // that are answered or may wait at a time
  // The levels of an elastic model, full first: clients name one as MODEL@LEVEL.
  std::vector<ServedLevel> levels = {};
  // For fields that a request does not name; asked for with each one. Errors refuse the request.
  std::function<Result<CompletionParams>()> defaults = [] { return CompletionParams(); };
  HttpCheck check = {};  // called with every request's head; empty: every client is answered
  // Compiles the form that a request asks for, which may take seconds. Empty: answers have no form.
  std::function<Result<AnswerConstraint>(const ConstraintSpec&, const HttpRequest&)> constrain = {};
  // Starts the answer. Before it returns an error, nothing was sent to the client.
  std::function<Status(CompletionCall)> complete;
  // Called for each refused request; may be empty.
  std::function<void(const HttpRequest&, const Status&)> on_refused = {};
};
std::vector<HttpRoute> openai_routes(const OpenaiService& service);
// The same paths where they are not offered: each request gets 404 with the reason and the remedy.
std::vector<HttpRoute> closed_openai_routes(const std::string& why);

HttpResponse json_response(const Json& json);

}  // namespace outrider
