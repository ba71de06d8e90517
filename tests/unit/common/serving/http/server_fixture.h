// A server with a route of each kind, for tests over real sockets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "common/serving/http/server.h"

namespace outrider {

class HttpServerTest : public testing::Test {
 protected:
  void start(HttpServerOptions options = {}) {
    options.listen = {"127.0.0.1", 0};
    const auto echo = [](const HttpRequest& request) {
      return HttpResponse{.body = request.method + " " + request.path + " " + request.body + " " +
                                  request.header("x-name") + " " + request.peer};
    };
    const auto later = [this](const HttpRequest&, const std::shared_ptr<HttpExchange>& exchange) {
      const std::lock_guard lock(mu_);
      waiting_.push_back(exchange);
      changed_.notify_all();
    };
    const auto slow = [this](const HttpRequest& request,
                             const std::shared_ptr<HttpExchange>& exchange) {
      std::unique_lock lock(mu_);
      ++num_slow_;
      changed_.wait(lock, [&] { return may_go_on_ || request.body == "go"; });
      exchange->respond({.body = "slowly " + request.body});
    };
    HttpRoute alive = page_route("GET", "/alive", echo);
    alive.is_health = true;
    const auto locked = [](HttpRequest& request) {
      return request.bearer_key() == "key" ? Status() : unauthenticated("no key");
    };
    auto server = HttpServer::start(
        options, {page_route("GET", "/a", echo),
                  page_route("POST", "/b", echo),
                  page_route("GET", "/below/*", echo),
                  page_route("POST", "/locked", echo, locked),
                  {.method = "GET", .path = "/later", .handler = later},
                  {.method = "POST", .path = "/slow", .handler = slow, .is_slow = true},
                  alive});
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }
  const Address& address() const { return server_->address(); }
  std::shared_ptr<HttpExchange> next_waiting() {
    std::unique_lock lock(mu_);
    changed_.wait_for(lock, std::chrono::seconds(20), [this] { return !waiting_.empty(); });
    if (waiting_.empty()) return nullptr;
    std::shared_ptr<HttpExchange> first = waiting_.front();
    waiting_.pop_front();
    return first;
  }

  void let_slow_ones_go_on() {
    const std::lock_guard lock(mu_);
    may_go_on_ = true;
    changed_.notify_all();
  }

  // Requests that a slow handler has begun.
  int num_waiting() {
    const std::lock_guard lock(mu_);
    return num_slow_;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  bool may_go_on_ = false;
  int num_slow_ = 0;
  std::deque<std::shared_ptr<HttpExchange>> waiting_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace outrider
