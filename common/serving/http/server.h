// An HTTP/1.1 server without a thread for each open request: one thread waits for all sockets, and
// a pending answer costs memory only.
//
//   auto server = *HttpServer::start({.listen = {"127.0.0.1", 8000}}, routes);
//
// When the head of a request has arrived, its host (host_rules.h), its route and the route's check
// are evaluated; the body of a refused request is dropped. The handler is called with each complete
// request: on the server's thread, where it must return soon, or on those of a work queue if it is
// slow, where networks take turns. It answers at once, or passes the exchange to another thread
// that answers. Every answer has its request's id as X-Request-Id.
//
// With TLS, the same port also reads plaintext, so that a client that uses it by mistake is told
// so, and probes can ask for health (requires_tls).
//
// Bounds: connections.h, for connections and unfinished bodies; work_queue.h, for requests that
// wait for its threads; the size of heads and bodies; the time of an idle connection. Errors:
// UNAVAILABLE if the address cannot be listened on, with the system's reason; INVALID_ARGUMENT for
// an allowed origin that is none; INTERNAL if OpenSSL does not take the TLS files. A client's
// mistake is answered with a 4xx status. Thread rule: start() and the destructor from one thread.
// The destructor ends open requests, with UNAVAILABLE where nothing was sent yet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/serving/credentials/offered_tls_files.h"
#include "common/serving/http/connections.h"
#include "common/serving/http/routes.h"
#include "common/serving/http/work_queue.h"

namespace outrider {

struct HttpServerOptions {
  Address listen;  // port 0: any free one
  // The same as HostRules::allowed; on other addresses than loopback, requests without Origin may
  // use any name.
  std::vector<std::string> allowed_hosts = {};
  std::vector<std::string> allowed_origins = {};  // as HostRules::allowed_origins
  ConnectionBounds bounds = {};
  WorkQueue::Bounds work = {};
  unsigned idle_seconds = 30;
  std::size_t max_body_bytes = std::size_t{1} << 20;
  std::shared_ptr<const OfferedTlsFiles> tls = {};  // null: plaintext only
  // With TLS: whether all but the health routes need it, and, where the files name authorities of
  // clients, a certificate of theirs.
  bool requires_tls = true;
  // Called for each client that speaks another protocol, on the server's thread. May be empty.
  std::function<void(const std::string& peer, const Status&)> on_refused = {};
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
  // Whether every complete request has been answered, to its last byte, within so long.
  bool wait_until_answered(Duration at_most);

 private:
  struct Parts;
  explicit HttpServer(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

}  // namespace outrider
