// SPDX-License-Identifier: Apache-2.0
#include "common/http/health_page.h"

#include <nlohmann/json.hpp>

namespace outrider {
namespace {

HttpResponse yes_or_no(bool yes, const char* yes_text, const char* no_text) {
  return {.status = yes ? 200 : 503, .body = std::string(yes ? yes_text : no_text) + "\n"};
}

}  // namespace

std::optional<HttpResponse> health_page(const std::string& path, const Health& health) {
  if (path == "/health/live") return yes_or_no(health.alive, "alive", "hung");
  if (path == "/health/ready") {
    return yes_or_no(health.alive && health.ready, "ready", "not ready");
  }
  if (path != "/version") return std::nullopt;
  const nlohmann::ordered_json version = {{"version", health.version},
                                          {"model", health.model_name}};
  return HttpResponse{
      .body = version.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n",
      .content_type = "application/json"};
}

}  // namespace outrider
