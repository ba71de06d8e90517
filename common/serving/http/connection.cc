// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <chrono>
#include <ctime>
#include <utility>

#include "common/base/random_id.h"
#include "common/base/request_headers.h"
#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

namespace asio = boost::asio;
using Then = HttpExchange::Outgoing::Then;

constexpr std::size_t kReadBytes = std::size_t{16} << 10;
// Bytes that are read of a refused request's body, so that its client gets to reading the answer.
constexpr std::size_t kMaxDropped = std::size_t{8} << 20;
// How long a client may take to see that its connection was closed.
constexpr Duration kLinger = std::chrono::seconds(2);
// How long a client may take for its first byte and for all of a TLS handshake.
constexpr Duration kHandshake = std::chrono::seconds(20);
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr char kLastChunk[] = "0\r\n\r\n";

// Nobody else's name, and no secret: it finds a request in logs.
std::string request_id_of(const HttpRequest& request) {
  static const std::string process = "req-" + random_id().substr(0, 16) + "-";
  static std::atomic<std::uint64_t> number{0};
  const std::string& given = request.header(kRequestIdHeader);
  if (is_request_id(given)) return given;
  return process + std::to_string(number.fetch_add(1, std::memory_order_relaxed));
}

// The time in the form of RFC 9110, 5.6.7.
std::string http_date() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 40> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

std::string hex(std::size_t number) {
  std::array<char, 20> text{};
  return {text.data(),
          static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%zx", number))};
}

HttpResponse too_large(std::size_t bound) {
  HttpResponse refusal =
      error_response(invalid_argument("the body exceeds " + std::to_string(bound) + " bytes"));
  refusal.status = 413;
  return refusal;
}

}  // namespace

HttpConnection::HttpConnection(HttpSocket::Plain socket, std::string peer, HttpService& service)
    : socket_(std::move(socket)),
      peer_(std::move(peer)),
      service_(service),
      timer_(socket_.get_executor()),
      buffer_(HttpRequestParser::kMaxHeadBytes) {}

void HttpConnection::start() {
  place_ = &service_.connections().enter(socket_.native_handle(), peer_, clock_.now());
  service_.tls() != nullptr ? greet() : read();
}

void HttpConnection::greet() {
  arm(std::min(service_.patience(), kHandshake));
  socket_.async_greet([self = shared_from_this()](const Error& error, bool begins_with_tls) {
    if (error || self->state_ == State::kClosed) return self->finish();
    if (begins_with_tls) return self->shake_hands();
    self->disarm();
    self->read();
  });
}

void HttpConnection::shake_hands() {
  socket_.async_handshake(service_.tls(), [self = shared_from_this()](const Error& error) {
    self->disarm();
    if (self->state_ == State::kClosed) return;
    if (!error) return self->read();
    self->service_.refused(self->peer_,
                           invalid_argument("the TLS handshake failed: " + error.message()));
    self->end_sending();  // its alert has been sent
  });
}

// Some clients recognise an answer in plaintext, and say so.
void HttpConnection::refuse_tls() {
  const Status why = invalid_argument(
      "the connection begins with TLS, but this port speaks plaintext. Remedy: http:// in place of "
      "https://, or give this program a certificate");
  service_.refused(peer_, why);
  respond(error_response(why), /*closes=*/true);
}

void HttpConnection::arm(Duration patience) {
  timer_.expires_after(std::chrono::duration_cast<std::chrono::nanoseconds>(patience));
  timer_.async_wait([weak = weak_from_this()](const Error& error) {
    const auto self = weak.lock();
    // One that was called off too late has another expiry by now.
    if (error || !self || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
    self->is_sending_ ? self->reset() : self->finish();
  });
}

void HttpConnection::disarm() {
  timer_.expires_at(std::chrono::steady_clock::time_point::max());
}

void HttpConnection::read() {
  arm(state_ == State::kDiscarding ? kLinger : service_.patience());
  const std::size_t room = std::min(kReadBytes, buffer_.max_size() - buffer_.size());
  socket_.async_read_some(
      buffer_.prepare(room), [self = shared_from_this()](const Error& error, std::size_t got) {
        self->disarm();
        if (error || self->state_ == State::kClosed) return self->finish();
        self->buffer_.commit(got);
        self->state_ == State::kDiscarding ? self->discard() : self->take_input();
      });
}

void HttpConnection::take_input() {
  while (state_ == State::kReading) {
    if (parser_.is_complete()) return hand_over();
    const bool had_head = parser_.has_head();
    const asio::const_buffer held = buffer_.data();
    const HttpRequestParser::Step step =
        parser_.put({static_cast<const char*>(held.data()), held.size()});
    if (parser_.refusal()) {
      if (id_.empty()) id_ = request_id_of(parser_.request());
      if (!had_head && HttpSocket::begins_with_tls(held)) return refuse_tls();
      return respond(*parser_.refusal(), /*closes=*/true);
    }
    if (!step.body.empty()) take_body(step.body);
    buffer_.consume(step.taken);
    if (!had_head && parser_.has_head()) {
      on_head();
    } else if (dropped_ > kMaxDropped) {
      return respond(*finding_.refusal, /*closes=*/true);
    } else if (step.taken == 0) {
      return read();
    }
  }
}

void HttpConnection::on_head() {
  HttpRequest& request = parser_.request();
  request.peer = peer_;
  request.is_secure = socket_.is_secure();
  request.certificate_name = socket_.client_name();
  request.id = id_ = request_id_of(request);
  is_head_method_ = request.method == "HEAD";
  closes_ = !parser_.keeps_alive();
  finding_ = service_.look_at(request);
  const std::uint64_t length = parser_.content_length().value_or(0);
  if (!finding_.refusal && length > service_.max_body_bytes()) {
    finding_.refusal = too_large(service_.max_body_bytes());
  }
  const bool waits = parser_.expects_continue() && !parser_.is_complete();
  if (finding_.refusal) {
    // A client that waits is answered before it sends the body.
    if (waits || length > kMaxDropped) respond(*finding_.refusal, /*closes=*/true);
    return;
  }
  service_.connections().begin_body(*place_, &request.body, request.caller != nullptr,
                                    clock_.now());
  if (!waits || buffer_.size() > 0) return;
  state_ = State::kAnswering;
  HttpExchange::Outgoing interim;
  interim.interim = true;
  send(std::move(interim));
}

void HttpConnection::take_body(std::string_view bytes) {
  if (!finding_.refusal) {
    HttpRequest& request = parser_.request();
    const std::size_t bound = service_.max_body_bytes();
    const bool fits = request.body.size() + bytes.size() <= bound;
    const Status taken = fits ? service_.connections().take_body(*place_, bytes) : Status();
    if (fits && taken.ok()) return;
    finding_.refusal = fits ? error_response(taken) : too_large(bound);
    service_.connections().end_request(*place_, clock_.now());
    request.body = std::string();
  }
  dropped_ += bytes.size();
}

void HttpConnection::hand_over() {
  if (!finding_.refusal && !finding_.route->is_health) {
    const Status taken = service_.connections().begin_answer(*place_, clock_.now());
    if (!taken.ok()) finding_.refusal = error_response(taken);
  }
  if (finding_.refusal) return respond(*finding_.refusal, closes_);
  state_ = State::kAnswering;
  const auto wake = [self = shared_from_this()] {
    asio::post(self->socket_.get_executor(), [self] { self->flush(); });
  };
  exchange_ = std::make_shared<HttpExchange>(HttpExchange::Reader{
      .fd = socket_.native_handle(), .reads_interim = !parser_.is_http_1_0(), .wake = wake});
  service_.answer(std::move(parser_.request()), *finding_.route, exchange_, place_->network);
  flush();
}

void HttpConnection::flush() {
  if (is_sending_ || exchange_ == nullptr) return;
  send(exchange_->take());
}

void HttpConnection::respond(const HttpResponse& response, bool closes) {
  state_ = State::kAnswering;
  closes_ = closes;
  HttpExchange::Outgoing whole;
  whole.head = response;
  whole.then = Then::kEnd;
  send(std::move(whole));
}

void HttpConnection::send(HttpExchange::Outgoing out) {
  if (out.then == Then::kAbort) return reset();
  then_ = out.then;
  prefix_ = out.interim ? kContinue : "";
  body_.clear();
  suffix_.clear();
  if (out.head) {
    is_unframed_ = out.is_stream && parser_.is_http_1_0();
    closes_ = closes_ || is_unframed_ || then_ == Then::kCut;
    prefix_ += head_of(*out.head, out.is_stream);
  }
  if (out.is_stream) {
    frame_stream(out);
    body_ = std::move(out.piece);
  } else if (out.head && !is_head_method_) {
    body_ = std::move(out.head->body);
  }
  if (prefix_.empty() && body_.empty() && suffix_.empty()) {
    if (then_ != Then::kMore) on_sent({});
    return;
  }
  is_sending_ = true;
  const std::array<asio::const_buffer, 3> all = {asio::buffer(prefix_), asio::buffer(body_),
                                                 asio::buffer(suffix_)};
  const auto as_it_is_read = [self = shared_from_this()](const Error& error, std::size_t) {
    self->arm(self->service_.patience());
    return error ? std::size_t{0} : kReadBytes * 4;
  };
  socket_.async_write(all, as_it_is_read,
                      [self = shared_from_this()](const Error& error, std::size_t) {
                        self->disarm();
                        self->on_sent(error);
                      });
}

void HttpConnection::frame_stream(const HttpExchange::Outgoing& out) {
  if (is_unframed_) return;
  if (!out.piece.empty()) {
    prefix_ += hex(out.piece.size()) + "\r\n";
    suffix_ = "\r\n";
  }
  if (out.then == Then::kEnd) suffix_ += kLastChunk;
}

std::string HttpConnection::head_of(const HttpResponse& response, bool is_stream) const {
  namespace http = boost::beast::http;
  const auto reason = http::obsolete_reason(static_cast<http::status>(response.status));
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head.append(reason.data(), reason.size());
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.append("\r\n").append(name).append(": ").append(value);
  };
  add("Date", http_date());
  if (response.status != 204) add("Content-Type", response.content_type);
  add("X-Content-Type-Options", "nosniff");
  if (!id_.empty()) add("X-Request-Id", id_);
  for (const HttpHeaders& headers : {response.headers, finding_.headers}) {
    for (const auto& [name, value] : headers) add(name, value);
  }
  if (!is_stream && response.status != 204) {
    add("Content-Length", std::to_string(response.body.size()));
  }
  if (is_stream && !is_unframed_) add("Transfer-Encoding", "chunked");
  if (closes_) {
    add("Connection", "close");
  } else if (parser_.is_http_1_0()) {
    add("Connection", "keep-alive");
  }
  return head + "\r\n\r\n";
}

void HttpConnection::on_sent(const Error& error) {
  is_sending_ = false;
  if (error || state_ == State::kClosed) return finish();
  switch (then_) {
    case Then::kMore:
      if (exchange_ != nullptr) return flush();
      state_ = State::kReading;  // the client was told to continue
      return take_input();
    case Then::kEnd:
    case Then::kCut: {
      end_request();
      if (then_ == Then::kCut && is_unframed_) return reset();
      if (then_ == Then::kEnd && !closes_) return next_request();
      return end_sending();
    }
    case Then::kAbort:
      return reset();
  }
}

void HttpConnection::next_request() {
  parser_ = HttpRequestParser();
  finding_ = {};
  id_.clear();
  dropped_ = 0;
  is_head_method_ = false;
  state_ = State::kReading;
  take_input();
}

void HttpConnection::end_sending() {
  state_ = State::kDiscarding;
  dropped_ = 0;
  arm(kLinger);
  socket_.async_end_sending([self = shared_from_this()] {
    self->disarm();
    if (self->state_ != State::kClosed) self->discard();
  });
}

void HttpConnection::discard() {
  dropped_ += buffer_.size();
  buffer_.consume(buffer_.size());
  dropped_ > kMaxDropped ? finish() : read();
}

void HttpConnection::end_request() {
  if (place_ != nullptr) service_.connections().end_request(*place_, clock_.now());
  if (exchange_ == nullptr) return;
  exchange_->forget_reader();
  service_.answered(std::exchange(exchange_, nullptr));
}

// The client sees an error instead of an end.
void HttpConnection::reset() {
  if (state_ == State::kClosed) return;
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  finish();
}

void HttpConnection::finish() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();
  end_request();
  if (place_ != nullptr) service_.connections().leave(*std::exchange(place_, nullptr));
  disarm();
  socket_.close();
  service_.closed(self);
}

}  // namespace outrider
