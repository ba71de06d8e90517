// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/http/admin.h"

#include <string_view>
#include <utility>

#include "cloud_server/admission/wrong_keys.h"
#include "common/http/health_page.h"

namespace outrider {
namespace {

constexpr std::string_view kBearer = "Bearer ";

HttpResponse not_found_here() {
  return {.status = 404, .body = "no such page\n"};
}

HttpResponse metrics_refusal(const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) {
    const auto delay = std::chrono::duration_cast<std::chrono::seconds>(WrongKeys::kOneIn);
    return {.status = 429,
            .body = status.message() + "\n",
            .headers = {{"Retry-After", std::to_string(delay.count())}}};
  }
  return {.status = 401,
          .body =
              "a key is needed whose line in --token-file has the word read-metrics: "
              "Authorization: Bearer KEY\n",
          .headers = {{"WWW-Authenticate", "Bearer"}}};
}

std::string key_of(const HttpRequest& request) {
  const std::string& value = request.header("authorization");
  return value.rfind(kBearer, 0) == 0 ? value.substr(kBearer.size()) : std::string();
}

}  // namespace

void AdminServer::on_request(const HttpRequest& request,
                             const std::shared_ptr<HttpExchange>& exchange) const {
  if (questions_.answers && questions_.answers(request, exchange)) return;
  exchange->respond(health(request));
}

HttpResponse AdminServer::health(const HttpRequest& request) const {
  if (request.method != "GET" && request.method != "HEAD") {
    return {.status = 405, .body = "GET only\n", .headers = {{"Allow", "GET, HEAD"}}};
  }
  const Health health{.alive = questions_.is_alive(),
                      .ready = questions_.is_ready(),
                      .version = questions_.version,
                      .model_name = questions_.model_name};
  return health_page(request.path == "/health" ? "/health/ready" : request.path, health)
      .value_or(not_found_here());
}

HttpResponse AdminServer::metrics(const HttpRequest& request) const {
  if (request.path != "/metrics") return not_found_here();
  if (questions_.check_metrics_key) {
    const Status status = questions_.check_metrics_key(key_of(request), request.peer);
    if (!status.ok()) return metrics_refusal(status);
  }
  return {.body = questions_.metrics(), .content_type = "text/plain; version=0.0.4"};
}

Result<std::unique_ptr<AdminServer>> AdminServer::start(const AdminOptions& options,
                                                        AdminQuestions questions) {
  std::unique_ptr<AdminServer> self(new AdminServer(std::move(questions)));
  const AdminServer& pages = *self;
  if (options.health) {
    OUTRIDER_ASSIGN_OR_RETURN(
        self->health_, HttpServer::start({.listen = *options.health},
                                         [&pages](const HttpRequest& request,
                                                  const std::shared_ptr<HttpExchange>& exchange) {
                                           pages.on_request(request, exchange);
                                         }));
  }
  if (options.metrics) {
    OUTRIDER_ASSIGN_OR_RETURN(
        self->metrics_, HttpServer::start({.listen = *options.metrics},
                                          [&pages](const HttpRequest& request,
                                                   const std::shared_ptr<HttpExchange>& exchange) {
                                            exchange->respond(pages.metrics(request));
                                          }));
  }
  return self;
}

}  // namespace outrider
