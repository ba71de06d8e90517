// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/routes.h"

#include <utility>

#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

bool has_path(const HttpRoute& route, std::string_view path) {
  const std::string_view own = route.path;
  if (!own.ends_with("/*")) return path == own;
  const std::string_view folder = own.substr(0, own.size() - 1);
  return path.size() > folder.size() && path.starts_with(folder);
}

bool has_method(const HttpRoute& route, std::string_view method) {
  return route.method == method || (route.method == "GET" && method == "HEAD");
}

// Which methods there are, to a client that asks only for them.
HttpResponse methods_page(const std::string& methods) {
  HttpResponse page;
  page.status = 204;
  page.headers.emplace_back("Allow", methods);
  return page;
}

}  // namespace

FoundRoute find_route(const std::vector<HttpRoute>& routes, std::string_view method,
                      std::string_view path) {
  if (method == "OPTIONS" && path == "*")
    return {nullptr, methods_page("GET, HEAD, POST, OPTIONS")};
  std::string allowed;
  for (const HttpRoute& route : routes) {
    if (!has_path(route, path)) continue;
    if (has_method(route, method)) return {&route};
    allowed += (allowed.empty() ? "" : ", ") + route.method;
    if (route.method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty()) {
    return {nullptr, error_response(not_found("no such page: " + printable(path)))};
  }
  if (method == "OPTIONS") return {nullptr, methods_page(allowed + ", OPTIONS")};
  FoundRoute none{nullptr, error_response(invalid_argument(printable(path) + " takes " + allowed))};
  none.refusal.status = 405;
  none.refusal.headers.emplace_back("Allow", allowed);
  return none;
}

HttpRoute page_route(std::string method, std::string path,
                     std::function<HttpResponse(const HttpRequest&)> page, HttpCheck check) {
  return {.method = std::move(method),
          .path = std::move(path),
          .handler =
              [page = std::move(page)](const HttpRequest& request,
                                       const std::shared_ptr<HttpExchange>& exchange) {
                exchange->respond(page(request));
              },
          .check = std::move(check)};
}

}  // namespace outrider
