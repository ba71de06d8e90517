// An HTTP/1.1 server that holds no thread for an open request: one thread waits for all sockets,
// and an answer that is not there yet costs memory only.
//
//   auto server = *HttpServer::start({.listen = {"127.0.0.1", 8000}}, routes);
//
// When the head of a request is there, its host (host_rules.h), its route and the route's check are
// looked at; the body of a refused one is dropped. The handler is called with each whole request:
// on the server's thread, where it must return soon, or if it is slow on a second one, on which
// addresses take turns. It answers at once, or hands the exchange to another thread that will.
// Every answer carries its request's id as X-Request-Id.
//
// Bounds: connections.h, for connections and unfinished bodies; work_queue.h, for those that wait
// to be read; the size of heads and bodies; the time that an idle connection may stay.
// Errors: UNAVAILABLE if the address cannot be listened on, with the system's reason. What a client
// does wrong is answered with a status of 4xx.
// Thread rule: start() and the destructor from one thread. The destructor ends what is open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/base/address.h"
#include "common/base/status.h"
#include "common/http/connections.h"
#include "common/http/routes.h"
#include "common/http/work_queue.h"

namespace outrider {

struct HttpServerOptions {
  Address listen;  // port 0: any free one
  // As HostRules says; beyond loopback programs that are no browser may use any name.
  std::vector<std::string> allowed_hosts = {};
  ConnectionBounds bounds = {};
  WorkQueue::Bounds work = {};
  unsigned idle_seconds = 30;
  std::size_t max_body_bytes = std::size_t{1} << 20;
};

class HttpServer final {
 public:
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   std::vector<HttpRoute> routes);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // With the port it got.
  const Address& address() const;

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace outrider
