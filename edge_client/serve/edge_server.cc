// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/edge_server.h"

#include <utility>
#include <vector>

#include "common/base/json.h"
#include "common/openai/completion_request.h"
#include "common/openai/routes.h"
#include "common/telemetry/log.h"
#include "edge_client/report/answer_ledger.h"
#include "edge_client/serve/answer_form.h"
#include "edge_client/serve/chat_page.h"

namespace outrider {
namespace {

bool is_get(const HttpRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

}  // namespace

EdgeServer::EdgeServer(EdgeServerOptions options, const GeneratorParts& parts)
    : options_(std::move(options)),
      tokenizer_(parts.tokenizer),
      metrics_(options_.model_name),
      link_(parts.mode, options_.probe, parts.clock),
      queue_(parts, options_.queue, link_,
             [this](const std::string& id, const AnswerReport& report) { on_answer(id, report); }) {
}

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
  const bool is_chat = request.path == kChatRoute;
  std::string id = request_id_of(request);
  exchange->add_header("X-Request-Id", id);
  if (!is_chat && request.path != kCompletionRoute) return exchange->respond(page(request));
  const Status status = complete(request, exchange, {std::move(id), is_chat});
  if (!status.ok()) exchange->respond(error_response(status));
}

Status EdgeServer::complete(const HttpRequest& request,
                            const std::shared_ptr<HttpExchange>& exchange, Asked as) {
  if (request.method != "POST") return invalid_argument(request.path + " takes POST");
  OUTRIDER_RETURN_IF_ERROR(check_origin(request));
  OUTRIDER_ASSIGN_OR_RETURN(
      CompletionRequest asked,
      parse_completion(request.body, as.is_chat, params_of(options_.defaults)));
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt,
                            encode_request(tokenizer_, asked, options_.chat_template));
  return queue_.submit({.request = {.prompt = std::move(prompt),
                                    .config = config_of(asked.params, options_.defaults),
                                    .id = std::move(as.request_id)},
                        .name = new_answer(options_.model_name, as.is_chat),
                        .stream = asked.stream,
                        .stream_usage = asked.stream_usage,
                        .exchange = exchange});
}

HttpResponse EdgeServer::page(const HttpRequest& request) {
  if (request.path == kTokenizeRoute && request.method == "POST") {
    return tokenize_page(tokenizer_, request);
  }
  if (request.path == kDetokenizeRoute && request.method == "POST") {
    return detokenize_page(tokenizer_, request);
  }
  if (!is_get(request)) return error_response(not_found("no such page: " + request.path));
  if (request.path == kModelsRoute) return models_page(options_.model_name);
  if (request.path == "/metrics") return metrics_page();
  if (request.path == "/") {
    return {.status = 200,
            .body = std::string(chat_page()),
            .content_type = "text/html; charset=utf-8",
            .headers = {{"Content-Security-Policy",
                         "default-src 'none'; style-src 'unsafe-inline'; script-src "
                         "'unsafe-inline'; connect-src 'self'; img-src data:"}}};
  }
  if (request.path == "/health" || request.path == "/link") return state_page(request.path);
  // Last, as asking for health may ask the server.
  return health_page(request.path, health(link_.look()))
      .value_or(error_response(not_found("no such page: " + request.path)));
}

Health EdgeServer::health(const LinkWatch::View& link) {
  return {.alive = is_alive(),
          .ready = link.can_answer && !queue_.full(),
          .version = options_.version,
          .model_name = options_.model_name};
}

HttpResponse EdgeServer::state_page(const std::string& path) {
  const LinkWatch::View view = link_.look();
  const Health now = health(view);
  const bool ok = now.alive && now.ready;
  const char* decides = view.device_decides ? "device" : view.can_answer ? "server" : "nobody";
  HttpResponse page = json_response({{"status", ok ? "ok" : "unavailable"},
                                     {"link", name_of(view.link)},
                                     {"decides", decides},
                                     {"running", queue_.running()},
                                     {"waiting", queue_.waiting()}});
  if (path == "/health" && !ok) page.status = 503;
  return page;
}

HttpResponse EdgeServer::metrics_page() {
  return {.status = 200,
          .body = metrics_.render({.running = std::size_t{queue_.running()},
                                   .waiting = queue_.waiting(),
                                   .link = link_.look()}),
          .content_type = "text/plain; version=0.0.4"};
}

// The books: a line for each answer, and the sums.
void EdgeServer::on_answer(const std::string& request_id, const AnswerReport& report) {
  metrics_.observe(report);
  std::vector<LogField> fields = {{"request_id", request_id},
                                  {"finished_reason", name_of(report.finish.ending)}};
  const std::vector<LogField> used = ledger_fields(ledger_entry(report), report.bill);
  fields.insert(fields.end(), used.begin(), used.end());
  log(LogLevel::kInfo, "answer ended", fields);
}

}  // namespace outrider
