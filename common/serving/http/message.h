// An HTTP request and its response, as plain values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outrider {

// The text in lower case (ASCII), for names that are equal in any case.
std::string lower_case(std::string_view text);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;     // without the query
  HttpHeaders headers;  // names in lower case
  std::string body;
  std::string peer;        // its address, without the port
  bool is_secure = false;  // it came over TLS
  // The common name of the client's certificate, which is verified; empty if that has not exactly
  // one. Nothing: the client showed none.
  std::optional<std::string> certificate_name = {};
  std::string id;  // its name in logs: the client's x-request-id, or a new id
  // The facts that the route's check found about the sender; null if it found none.
  std::shared_ptr<const void> caller = {};

  // The first of this name; empty if there is none.
  const std::string& header(const std::string& name) const;
  // The key of "Authorization: Bearer KEY"; empty if there is none.
  std::string_view bearer_key() const;
  // The same, or else that of "X-Api-Key: KEY", which Anthropic's clients send.
  std::string_view api_key() const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  HttpHeaders headers = {};
};

}  // namespace outrider
