// Reads one HTTP/1.x request from bytes, strictly: two programs that read the same bytes must see
// the same requests, or a proxy lets pass what it never saw (request smuggling).
//
//   put* .. has_head() .. put* .. is_complete()
//
// Boost.Beast does the parsing. This class refuses in addition what RFC 9112 lets a server refuse
// and proxies read differently: more than one Content-Length, transfer codings other than chunked,
// folded lines, control characters in chunk extensions; and it checks Host and the target. The
// fields of a trailer are dropped.
//
// Errors: refusal() is an answer after which the connection must be closed, because nobody knows
// where the next request begins. Thread rule: one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "common/serving/http/message.h"

namespace outrider {

class HttpRequestParser final {
 public:
  // Bounds of a request's head, and of each line about a chunk.
  static constexpr std::size_t kMaxHeadBytes = std::size_t{32} << 10;

  HttpRequestParser();
  ~HttpRequestParser();
  HttpRequestParser(HttpRequestParser&&) noexcept;
  HttpRequestParser& operator=(HttpRequestParser&&) noexcept;

  // Reads from the front of `bytes`, and returns how much it took. If that is 0, more bytes must
  // follow these, up to kMaxHeadBytes. It stops behind the head and behind each piece of the body.
  struct Step {
    std::size_t taken = 0;
    std::string_view body;  // a piece of it, inside `bytes`
  };
  Step put(std::string_view bytes);

  bool has_head() const;
  bool is_complete() const;
  const std::optional<HttpResponse>& refusal() const;

  // Once it has the head: method, path and headers. The host of an absolute target replaces the
  // header Host (RFC 9112, 3.2.2).
  HttpRequest& request();
  std::optional<std::uint64_t> content_length() const;
  bool is_http_1_0() const;
  bool keeps_alive() const;
  // The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace outrider
