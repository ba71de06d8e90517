// The server's HTTP side for those who run it: is it alive, is it ready, which version, how is it.
//
//   /health/live   200 while passes come to their end: else start the process anew
//   /health/ready  200 while new sessions are welcome
//   /version       JSON
//   /metrics       Prometheus' text format; beyond loopback with a key that may read it
//
// Beside the first three stand whatever routes `answers` has: OpenAI's.
//
// Thread rule: start() and the destructor from one thread; the functions are called on the HTTP
// server's, and must not block. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/http/server.h"

namespace outrider {

struct AdminQuestions {
  std::function<bool()> is_alive;
  std::function<bool()> is_ready;
  std::function<std::string()> metrics;
  // Whether this key, which came from that address, may read /metrics: RESOURCE_EXHAUSTED if its
  // address is to come back later. Empty: everybody may.
  std::function<Status(const std::string& key, const std::string& host)> check_metrics_key;
  // Takes a request, or says that the path is none of its own; empty: there are no such routes.
  std::function<bool(const HttpRequest&, const std::shared_ptr<HttpExchange>&)> answers;
  std::string version;
  std::string model_name;
};

struct AdminOptions {
  std::optional<Address> health;   // where /health and /version are
  std::optional<Address> metrics;  // where /metrics is; may be the same address
};

class AdminServer final {
 public:
  static Result<std::unique_ptr<AdminServer>> start(const AdminOptions& options,
                                                    AdminQuestions questions);

  // Where they listen; null: not at all.
  const Address* health_address() const {
    return health_ == nullptr ? nullptr : &health_->address();
  }
  const Address* metrics_address() const {
    return metrics_ == nullptr ? nullptr : &metrics_->address();
  }

 private:
  explicit AdminServer(AdminQuestions questions) : questions_(std::move(questions)) {}
  void on_request(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) const;
  HttpResponse health(const HttpRequest& request) const;
  HttpResponse metrics(const HttpRequest& request) const;

  const AdminQuestions questions_;
  std::unique_ptr<HttpServer> health_;
  std::unique_ptr<HttpServer> metrics_;
};

}  // namespace outrider
