// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/health_routes.h"

#include <nlohmann/json.hpp>

namespace outrider {
namespace {

HttpResponse yes_or_no(bool yes, const char* yes_text, const char* no_text) {
  return {.status = yes ? 200 : 503, .body = std::string(yes ? yes_text : no_text) + "\n"};
}

HttpResponse version_page(const Health& health) {
  using Json = nlohmann::ordered_json;
  Json version = {{"version", health.version}, {"model", health.model_name}};
  if (!health.fingerprint.empty()) version["fingerprint"] = health.fingerprint;
  if (!health.arithmetic_id.empty()) version["arithmetic_id"] = health.arithmetic_id;
  return {.body = version.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n",
          .content_type = "application/json"};
}

}  // namespace

HttpResponse ready_page(const Health& health) {
  return yes_or_no(health.alive && health.ready, "ready", "not ready");
}

std::vector<HttpRoute> health_routes(const std::function<Health()>& now) {
  const auto live = [now](const HttpRequest&) { return yes_or_no(now().alive, "alive", "hung"); };
  const auto ready = [now](const HttpRequest&) { return ready_page(now()); };
  const auto version = [now](const HttpRequest&) { return version_page(now()); };
  std::vector<HttpRoute> routes = {page_route("GET", "/health/live", live),
                                   page_route("GET", "/health/ready", ready),
                                   page_route("GET", "/version", version)};
  for (HttpRoute& route : routes) route.is_health = true;
  return routes;
}

}  // namespace outrider
