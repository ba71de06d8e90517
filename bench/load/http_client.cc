// SPDX-License-Identifier: Apache-2.0
#include "bench/load/http_client.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/json.h"
#include "common/base/posix.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxHeaderBytes = 64 << 10;
constexpr std::size_t kMaxChunk = 64 << 20;
constexpr std::size_t kMaxEvent = 1 << 20;
constexpr std::size_t kMaxPage = 16 << 20;
constexpr timeval kPatience{.tv_sec = 120, .tv_usec = 0};

bool is_name(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
  });
}

std::optional<std::size_t> parse_size(std::string_view text, int base) {
  std::size_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<Address> parse_http_url(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  std::string_view rest = text;
  if (!rest.starts_with(kScheme)) {
    return invalid_argument(printable(text) +
                            ": expected http://HOST:PORT; TLS is not spoken here, so measure where "
                            "the server's plain port can be reached");
  }
  rest.remove_prefix(kScheme.size());
  if (rest.ends_with('/')) rest.remove_suffix(1);
  return parse_address(rest);
}

// --- a reply ------------------------------------------------------------------------------------

Status HttpReplyReader::take(std::string_view bytes) {
  while (!bytes.empty() && !done()) {
    if (state_ == State::kBody) {
      const std::size_t some = until_close_ ? bytes.size() : std::min(left_, bytes.size());
      body_ += bytes.substr(0, some);
      bytes.remove_prefix(some);
      if (until_close_) continue;
      left_ -= some;
      if (left_ == 0) state_ = chunked_ ? State::kChunkEnd : State::kDone;
      continue;
    }
    const std::size_t newline = bytes.find('\n');
    line_ += bytes.substr(0, newline);
    header_bytes_ += std::min(newline, bytes.size());
    if (header_bytes_ > kMaxHeaderBytes) {
      return resource_exhausted("the HTTP reply has headers of more than 64 KiB");
    }
    if (newline == std::string_view::npos) return {};
    bytes.remove_prefix(newline + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    OUTRIDER_RETURN_IF_ERROR(take_line(std::exchange(line_, {})));
  }
  return {};
}

Status HttpReplyReader::take_line(std::string_view line) {
  if (state_ == State::kHeaders && line.empty() && status_ > 0) {
    begin_body();
  } else if (state_ == State::kHeaders) {
    return take_header(line);
  } else if (state_ == State::kChunkSize) {
    return take_chunk_size(line);
  } else if (state_ == State::kChunkEnd) {
    if (!line.empty()) return data_loss("a chunk of the HTTP reply is longer than it says");
    state_ = State::kChunkSize;
  } else if (line.empty()) {  // the last of the trailers
    state_ = State::kDone;
  }
  return {};
}

Status HttpReplyReader::take_header(std::string_view line) {
  if (status_ == 0) {
    const auto code = line.starts_with("HTTP/1.") && line.size() >= 12
                          ? parse_size(line.substr(9, 3), 10)
                          : std::nullopt;
    if (!code || *code < 100 || *code > 599) {
      return data_loss("expected an HTTP reply, got " + printable(line.substr(0, 80)));
    }
    status_ = static_cast<int>(*code);
    return {};
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) {
    return data_loss("a header of the HTTP reply has no colon: " + printable(line.substr(0, 80)));
  }
  std::string_view value = line.substr(colon + 1);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  if (is_name(line.substr(0, colon), "transfer-encoding")) {
    if (!is_name(value, "chunked")) {
      return data_loss("Transfer-Encoding of the HTTP reply: expected chunked, got " +
                       printable(value));
    }
    chunked_ = true;
  } else if (is_name(line.substr(0, colon), "content-length")) {
    length_ = parse_size(value, 10);
    if (!length_)
      return data_loss("Content-Length of the HTTP reply: no number: " + printable(value));
  }
  return {};
}

void HttpReplyReader::begin_body() {
  header_bytes_ = 0;
  if (chunked_) {
    state_ = State::kChunkSize;
    return;
  }
  until_close_ = !length_.has_value();
  left_ = length_.value_or(0);
  state_ = until_close_ || left_ > 0 ? State::kBody : State::kDone;
}

Status HttpReplyReader::take_chunk_size(std::string_view line) {
  header_bytes_ = 0;
  const auto size = parse_size(line.substr(0, line.find(';')), 16);
  if (!size || *size > kMaxChunk) {
    return data_loss("a chunk of the HTTP reply has no size: " + printable(line.substr(0, 80)));
  }
  left_ = *size;
  state_ = left_ > 0 ? State::kBody : State::kTrailers;
  return {};
}

// --- a call -------------------------------------------------------------------------------------

namespace {

Result<UniqueFd> connect_to(const Address& server) {
  const std::string port = std::to_string(server.port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(server.host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return unavailable(server.to_string() + ": " + gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    UniqueFd fd(socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (!fd.valid()) {
      error = errno;
      continue;
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    if (connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return fd;
    error = errno;
  }
  return unavailable(server.to_string() + ": " + errno_message(error));
}

std::string request_text(const HttpCall& call) {
  std::string text = (call.body.empty() ? "GET " : "POST ") + call.path +
                     " HTTP/1.1\r\nHost: " + call.server.to_string() + "\r\nConnection: close\r\n";
  if (!call.key.empty()) text += "Authorization: Bearer " + call.key + "\r\n";
  if (!call.body.empty()) {
    text +=
        "Content-Type: application/json\r\nContent-Length: " + std::to_string(call.body.size()) +
        "\r\n";
  }
  return text + "\r\n" + call.body;
}

Status send_all(int socket, std::string_view bytes, const Address& server) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return unavailable(server.to_string() + ": " + errno_message(errno));
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

// The error for which an HTTP status stands, with OpenAI's error message if the body has one.
Status error_of(int status, const std::string& body, const HttpCall& call) {
  std::string message = call.server.to_string() + call.path + ": HTTP " + std::to_string(status);
  const Result<Json> json = parse_json(body, "the reply");
  if (json.ok() && json->is_object() && json->contains("error")) {
    const Json& error = (*json)["error"];
    if (error.is_object() && error.contains("message") && error["message"].is_string()) {
      message += ": " + printable(error["message"].get<std::string>());
    }
  }
  switch (status) {
    case 400:
      return invalid_argument(std::move(message));
    case 401:
      return unauthenticated(std::move(message));
    case 403:
      return permission_denied(std::move(message));
    case 404:
      return not_found(std::move(message));
    case 429:
      return resource_exhausted(std::move(message));
    case 501:
      return unimplemented(std::move(message));
    case 503:
      return unavailable(std::move(message));
    default:
      return internal_error(std::move(message));
  }
}

}  // namespace

Status http_call(const HttpCall& call, const std::function<Status(std::string_view)>& on_body) {
  OUTRIDER_ASSIGN_OR_RETURN(const UniqueFd socket, connect_to(call.server));
  OUTRIDER_RETURN_IF_ERROR(send_all(socket.get(), request_text(call), call.server));
  HttpReplyReader reply;
  std::string refusal;  // the body of another status than 200
  std::array<char, 16384> some;
  while (!reply.done()) {
    const ssize_t got = recv(socket.get(), some.data(), some.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return deadline_exceeded(call.server.to_string() + ": nothing came for two minutes");
    }
    if (got < 0) return unavailable(call.server.to_string() + ": " + errno_message(errno));
    if (got == 0 && !reply.may_end()) {
      return unavailable(call.server.to_string() + ": the connection ended before the reply did");
    }
    if (got == 0) break;
    OUTRIDER_RETURN_IF_ERROR(reply.take({some.data(), static_cast<std::size_t>(got)}));
    const std::string body = reply.take_body();
    if (body.empty()) continue;
    if (reply.status() == 200) {
      OUTRIDER_RETURN_IF_ERROR(on_body(body));
    } else if (refusal.size() < kMaxPage) {
      refusal += body;
    }
  }
  return reply.status() == 200 ? Status() : error_of(reply.status(), refusal, call);
}

Result<std::string> http_get(const HttpCall& call) {
  std::string page;
  OUTRIDER_RETURN_IF_ERROR(http_call(call, [&](std::string_view body) -> Status {
    if (page.size() + body.size() > kMaxPage) {
      return resource_exhausted(call.server.to_string() + call.path + ": more than 16 MiB");
    }
    page += body;
    return {};
  }));
  return page;
}

Status EventReader::take(std::string_view bytes,
                         const std::function<Status(std::string_view)>& on_data) {
  for (const char c : bytes) {
    if (c != '\r') rest_ += c;
  }
  std::size_t begin = 0;
  for (std::size_t end; (end = rest_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    constexpr std::string_view kData = "data: ";
    const std::string_view event = std::string_view(rest_).substr(begin, end - begin);
    if (event.starts_with(kData)) OUTRIDER_RETURN_IF_ERROR(on_data(event.substr(kData.size())));
  }
  rest_.erase(0, begin);
  if (rest_.size() > kMaxEvent) return resource_exhausted("an event of the stream exceeds 1 MiB");
  return {};
}

}  // namespace outrider
