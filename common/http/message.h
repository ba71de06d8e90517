// What an HTTP client asks and what it is answered, as plain values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outrider {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;     // without the query
  HttpHeaders headers;  // names in lower case
  std::string body;
  std::string peer;  // its address, without the port
  std::string id;    // by which logs name it: the client's x-request-id, or one of its own
  // What the route's check found out about who asks; null: nothing.
  std::shared_ptr<const void> caller = {};

  // The first of this name; empty if there is none.
  const std::string& header(const std::string& name) const;
  // Of "Authorization: Bearer KEY"; empty if there is none.
  std::string_view bearer_key() const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  HttpHeaders headers = {};
};

}  // namespace outrider
