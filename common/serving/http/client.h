// A client of one HTTP server: requests one after the other, over a connection that is kept for as
// long as the server keeps it.
//
//   HttpCaller caller({.server = *parse_address("127.0.0.1:8000")});
//   Result<HttpReply> reply = caller.call({.path = "/v1/completions", .body = body}, stop);
//
// A reply of any status is a reply. A kept connection that the server had closed before it
// answered anything is replaced once, and the request is sent again.
//
// Errors: UNAVAILABLE if the server cannot be reached or the connection is lost; DEADLINE_EXCEEDED;
// CANCELLED when a stop was requested.
//
// Thread rule: one thread at a time; blocks. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// Texts in PEM form.
struct HttpCallerTls {
  std::string authorities = {};   // empty: those that this machine trusts
  std::string certificates = {};  // shown to the server, with `key`; empty: none
  std::string key = {};
};

struct HttpCallerOptions {
  Address server;
  std::optional<HttpCallerTls> tls = {};  // nothing: plaintext
};

struct OutgoingRequest {
  std::string path;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::optional<std::string> body = {};  // nothing: a GET; else a POST
  Duration timeout{0};                   // of all of it; with on_body, between two pieces
  // Takes the body of a reply with status 200 piece by piece, however long it is; HttpReply::body
  // then is empty. Its error ends the call.
  std::function<Status(std::string_view)> on_body = {};
};

struct HttpReply {
  unsigned status = 0;
  std::string body;
  Duration retry_after{0};  // that the server asks for; 0: it does not
};

class HttpCaller final {
 public:
  explicit HttpCaller(HttpCallerOptions options);
  ~HttpCaller();
  HttpCaller(const HttpCaller&) = delete;
  HttpCaller& operator=(const HttpCaller&) = delete;

  Result<HttpReply> call(const OutgoingRequest& request, const std::stop_token& stop);

 private:
  class Connection;

  const HttpCallerOptions options_;
  std::unique_ptr<Connection> connection_;  // null: none is kept
};

}  // namespace outrider
