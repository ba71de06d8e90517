// Which function answers which request: the one table of a server.
//
//   {{.method = "POST", .path = "/tokenize", .handler = tokenize, .check = check_key}, ..}
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/http/exchange.h"
#include "common/http/message.h"

namespace outrider {

// Answers at once, or hands the exchange to another thread that will.
using HttpHandler = std::function<void(const HttpRequest&, const std::shared_ptr<HttpExchange>&)>;
// Looks at the head of a request and may set `caller`. An error refuses the request.
using HttpCheck = std::function<Status(HttpRequest&)>;

struct HttpRoute {
  std::string method;  // GET stands for HEAD too
  std::string path;    // one that ends with "/*" stands for all below it
  HttpHandler handler;
  HttpCheck check = {};
  bool is_health = false;  // answered at once to everybody, whatever the Host and the load
  bool is_slow = false;  // the handler takes long: it is called on another thread than the server's
};

// The route of a request, or how it is refused: 404 for a path that no route has, 405 for a method
// that none has at this path.
struct FoundRoute {
  const HttpRoute* route = nullptr;
  HttpResponse refusal = {};  // if there is no route
};
FoundRoute find_route(const std::vector<HttpRoute>& routes, std::string_view method,
                      std::string_view path);

// A route that answers at once.
HttpRoute page_route(std::string method, std::string path,
                     std::function<HttpResponse(const HttpRequest&)> page, HttpCheck check = {});

}  // namespace outrider
