// The table of a server's routes: which function answers which request.
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
#include "common/serving/http/error_response.h"
#include "common/serving/http/exchange.h"
#include "common/serving/http/message.h"

namespace outrider {

// Answers at once, or passes the exchange to another thread that answers.
using HttpHandler = std::function<void(const HttpRequest&, const std::shared_ptr<HttpExchange>&)>;
// Checks the head of a request and may set `caller`. An error refuses the request.
using HttpCheck = std::function<Status(HttpRequest&)>;

struct HttpRoute {
  std::string method;  // GET includes HEAD
  std::string path;    // "/x/*" matches all paths below /x/
  HttpHandler handler;
  HttpCheck check = {};
  bool is_health = false;  // answered at once without a check of Host, key or load
  bool is_slow = false;    // the handler takes long: it is called on a thread of the work queue
  ErrorForm error_form = ErrorForm::kOpenai;  // of what is refused before the handler is called
};

// The route of a request, or the answer to one that has none: 404 for an unknown path, 405 for a
// method that the path does not have, 204 for OPTIONS, which asks for the methods.
struct FoundRoute {
  const HttpRoute* route = nullptr;
  HttpResponse refusal = {};  // set if there is no route
};
FoundRoute find_route(const std::vector<HttpRoute>& routes, std::string_view method,
                      std::string_view path);

// A route that answers at once.
HttpRoute page_route(std::string method, std::string path,
                     std::function<HttpResponse(const HttpRequest&)> page, HttpCheck check = {});

}  // namespace outrider
