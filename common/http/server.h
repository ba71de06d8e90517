// An HTTP/1.1 server that holds no thread for an open request: one thread waits for all sockets,
// and an answer that is not there yet costs memory only.
//
//   auto server = *HttpServer::start({.listen = {"127.0.0.1", 8000}}, handler);
//
// The handler is called on the server's thread with each whole request, and must return soon: it
// answers at once, or hands the exchange to another thread that will.
//
// Bounds: connections in all and for each address, the size of headers and bodies, the time that an
// idle connection may stay.
// Errors: UNAVAILABLE if the address cannot be listened on, with the system's reason. What a client
// does wrong is answered with a status of 4xx.
// Thread rule: start() and the destructor from one thread. The destructor ends what is open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "common/base/address.h"
#include "common/base/status.h"
#include "common/http/exchange.h"
#include "common/http/message.h"

namespace outrider {

struct HttpServerOptions {
  Address listen;  // port 0: any free one
  unsigned max_connections = 1024;
  unsigned max_connections_per_address = 256;
  unsigned idle_seconds = 30;
  std::size_t max_body_bytes = std::size_t{1} << 20;
};

class HttpServer final {
 public:
  using Handler = std::function<void(const HttpRequest&, std::shared_ptr<HttpExchange>)>;

  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options,
                                                   Handler handler);
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
