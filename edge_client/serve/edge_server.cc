// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/edge_server.h"

#include <chrono>
#include <utility>

#include "common/base/json.h"
#include "common/base/random_id.h"
#include "edge_client/serve/chat_page.h"
#include "edge_client/serve/openai_request.h"

namespace outrider {
namespace {

std::int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

HttpResponse json_response(const Json& json) {
  return {.status = 200, .body = json.dump(), .content_type = "application/json"};
}

bool is_get(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

// A page of another site that runs in a browser here must not use this model.
Status check_origin(const HttpRequest& request) {
  const std::string& origin = request.header("origin");
  if (origin.empty()) return {};
  const std::string& host = request.header("host");
  if (origin == "http://" + host) return {};
  return invalid_argument("requests from pages of " + printable(origin) + " are not answered");
}

}  // namespace

EdgeServer::EdgeServer(EdgeServerOptions options, const GeneratorParts& parts)
    : options_(std::move(options)),
      tokenizer_(parts.tokenizer),
      metrics_(options_.model_name),
      queue_(parts, options_.max_waiting,
             [this](const AnswerReport& report) { metrics_.observe(report); }) {}

Result<std::unique_ptr<EdgeServer>> EdgeServer::start(const EdgeServerOptions& options,
                                                      const GeneratorParts& parts) {
  std::unique_ptr<EdgeServer> self(new EdgeServer(options, parts));
  EdgeServer* const server = self.get();
  OUTRIDER_ASSIGN_OR_RETURN(
      self->http_, HttpServer::start({.listen = options.listen},
                                     [server](const HttpRequest& request,
                                              const std::shared_ptr<HttpExchange>& exchange) {
                                       server->on_request(request, exchange);
                                     }));
  return self;
}

void EdgeServer::on_request(const HttpRequest& request,
                            const std::shared_ptr<HttpExchange>& exchange) {
  const bool is_chat = request.path == "/v1/chat/completions";
  if (!is_chat && request.path != "/v1/completions") return exchange->respond(page(request));
  const Status status = complete(request, exchange, is_chat);
  if (!status.ok()) exchange->respond(error_response(status));
}

Status EdgeServer::complete(const HttpRequest& request,
                            const std::shared_ptr<HttpExchange>& exchange, bool is_chat) {
  if (request.method != "POST") return invalid_argument(request.path + " takes POST");
  OUTRIDER_RETURN_IF_ERROR(check_origin(request));
  OUTRIDER_ASSIGN_OR_RETURN(CompletionRequest asked,
                            parse_completion(request.body, is_chat, options_.defaults));
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt, encode(asked));
  return queue_.submit({.request = {.prompt = std::move(prompt), .config = std::move(asked.config)},
                        .name = {.id = (is_chat ? "chatcmpl-" : "cmpl-") + random_id(),
                                 .model = options_.model_name,
                                 .is_chat = is_chat,
                                 .created = seconds_since_1970()},
                        .stream = asked.stream,
                        .stream_usage = asked.stream_usage,
                        .exchange = exchange});
}

Result<EncodedPrompt> EdgeServer::encode(const CompletionRequest& request) const {
  if (!request.is_chat) return encode_prompt(tokenizer_, request.prompt, "none");
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
                            ChatTemplate::choose(tokenizer_, options_.chat_template));
  EncodedPrompt prompt;
  OUTRIDER_ASSIGN_OR_RETURN(prompt.ids, chat.encode_chat(tokenizer_, request.messages));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end_of_turn, chat.end_of_turn(tokenizer_));
  prompt.stop_ids = {end_of_turn};
  return prompt;
}

HttpResponse EdgeServer::page(const HttpRequest& request) {
  if (request.path == "/tokenize" && request.method == "POST") return tokenize(request);
  if (!is_get(request)) return error_response(not_found("no such page: " + request.path));
  if (request.path == "/health") return json_response({{"status", "ok"}});
  if (request.path == "/v1/models") return models();
  if (request.path == "/metrics") {
    return {.status = 200,
            .body = metrics_.render(queue_.running() ? 1 : 0, queue_.waiting()),
            .content_type = "text/plain; version=0.0.4"};
  }
  if (request.path == "/") {
    return {.status = 200,
            .body = std::string(chat_page()),
            .content_type = "text/html; charset=utf-8",
            .headers = {{"Content-Security-Policy",
                         "default-src 'none'; style-src 'unsafe-inline'; script-src "
                         "'unsafe-inline'; connect-src 'self'; img-src data:"}}};
  }
  return error_response(not_found("no such page: " + request.path));
}

HttpResponse EdgeServer::models() const {
  return json_response({{"object", "list"},
                        {"data", Json::array({{{"id", options_.model_name},
                                               {"object", "model"},
                                               {"owned_by", "outrider"}}})}});
}

HttpResponse EdgeServer::tokenize(const HttpRequest& request) const {
  const Result<Json> body = parse_json(request.body, "the body");
  if (!body.ok() || !body->is_object() || !body->value("content", Json()).is_string()) {
    return error_response(invalid_argument("the body must be JSON: {\"content\": TEXT}"));
  }
  const Result<std::vector<TokenId>> ids =
      tokenizer_.encode((*body)["content"].get_ref<const std::string&>());
  if (!ids.ok()) return error_response(ids.status());
  return json_response({{"tokens", *ids}});
}

}  // namespace outrider
