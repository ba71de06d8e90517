// An HTTP/1.1 client for measuring: one request on a connection of its own, without TLS.
//
// Thread rule: an HttpReplyReader belongs to one thread; the functions are for any thread and
// block. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/address.h"
#include "common/base/status.h"

namespace outrider {

// "http://HOST:PORT", with or without a slash behind it. INVALID_ARGUMENT names what is wrong.
Result<Address> parse_http_url(const std::string& text);

// Reads one reply as its bytes come.
class HttpReplyReader final {
 public:
  // DATA_LOSS for bytes that are no reply of HTTP/1.1, RESOURCE_EXHAUSTED for headers without end.
  Status take(std::string_view bytes);

  int status() const { return status_; }  // 0 until the headers are complete
  // The part of the body that came since the last call.
  std::string take_body() { return std::exchange(body_, {}); }
  bool done() const { return state_ == State::kDone; }
  // Whether the reply is whole now that the connection has ended.
  bool may_end() const { return done() || (state_ == State::kBody && until_close_); }

 private:
  enum class State { kHeaders, kChunkSize, kChunkEnd, kBody, kTrailers, kDone };

  Status take_line(std::string_view line);
  Status take_header(std::string_view line);
  Status take_chunk_size(std::string_view line);
  void begin_body();

  State state_ = State::kHeaders;
  std::string line_;  // not complete yet
  std::size_t header_bytes_ = 0;
  int status_ = 0;
  bool chunked_ = false;
  bool until_close_ = false;
  std::optional<std::size_t> length_;
  std::size_t left_ = 0;  // of the body or the chunk
  std::string body_;
};

struct HttpCall {
  const Address& server;
  std::string path;
  std::string key = {};   // goes as a bearer token; empty: none
  std::string body = {};  // JSON; empty: GET, else POST
};

// Hands the body of a reply with status 200 to on_body piece by piece. Any other status is the
// error that it stands for, with the message of the body. UNAVAILABLE if the server cannot be
// reached or hangs up, DEADLINE_EXCEEDED if it is silent for two minutes. An error of on_body ends
// the call.
Status http_call(const HttpCall& call, const std::function<Status(std::string_view)>& on_body);

// A whole body. RESOURCE_EXHAUSTED above 16 MiB.
Result<std::string> http_get(const HttpCall& call);

// Reads server-sent events: hands the data of each complete event to on_data, and keeps the rest.
// RESOURCE_EXHAUSTED for an event of more than 1 MiB; an error of on_data.
class EventReader final {
 public:
  Status take(std::string_view bytes, const std::function<Status(std::string_view)>& on_data);

 private:
  std::string rest_;
};

}  // namespace outrider
