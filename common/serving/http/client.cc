// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/client.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>

namespace outrider {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr Duration kLook = std::chrono::milliseconds(20);  // between two looks for a stop
constexpr std::uint64_t kMaxReply = std::uint64_t{64} << 20;
constexpr std::int64_t kMaxRetrySeconds = 3600;

// Retry-After as a number of seconds; its other form, a date, counts as not given.
Duration retry_after(const http::response<http::string_body>& reply) {
  const auto text = reply[http::field::retry_after];
  std::int64_t seconds = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || rest != text.data() + text.size() || seconds < 0) return Duration{0};
  return std::chrono::seconds(std::min(seconds, kMaxRetrySeconds));
}

}  // namespace

// The steps of an exchange, each begun by the end of the one before.
class HttpCaller::Connection final {
 public:
  explicit Connection(const HttpCallerOptions& options)
      : options_(options), resolver_(loop_), socket_(loop_) {}

  Result<HttpReply> exchange(const OutgoingRequest& asked, const std::stop_token& stop) {
    asked_ = &asked;
    until_ = SystemClock().now() + asked.timeout;
    set_request(asked);
    reply_.emplace();
    reply_->body_limit(asked.on_body ? std::numeric_limits<std::uint64_t>::max() : kMaxReply);
    result_.reset();
    is_connected_ ? send() : resolve();
    while (!result_) {
      if (stop.stop_requested()) return cancelled("interrupted");
      if (SystemClock().now() >= until_) return deadline_exceeded("no reply came in time");
      loop_.run_for(kLook);
      if (loop_.stopped()) loop_.restart();
    }
    return *std::move(result_);
  }

  // Whether something of the last exchange's reply came, and the server keeps the connection.
  bool has_heard() const { return reply_ && reply_->got_some(); }
  bool is_kept() const { return reply_ && reply_->is_done() && reply_->get().keep_alive(); }

 private:
  void set_request(const OutgoingRequest& asked) {
    request_ = http::request<http::string_body>();
    request_.method(asked.body ? http::verb::post : http::verb::get);
    request_.target(asked.path);
    request_.version(11);
    request_.set(http::field::host, options_.server.to_string());
    for (const auto& [name, value] : asked.headers) request_.set(name, value);
    if (asked.body) {
      request_.set(http::field::content_type, asked.content_type);
      request_.body() = *asked.body;
    }
    request_.prepare_payload();
  }

  // True if the step failed, whose error then is the result.
  bool failed(const char* step, const Error& error) {
    if (error) result_ = unavailable(std::string(step) + ": " + error.message());
    return error.failed();
  }

  void resolve() {
    const std::string host(without_brackets(options_.server.host));
    resolver_.async_resolve(host, std::to_string(options_.server.port),
                            [this](const Error& error, const Tcp::resolver::results_type& found) {
                              if (!failed("its name", error)) connect(found);
                            });
  }

  void connect(const Tcp::resolver::results_type& found) {
    asio::async_connect(socket_, found, [this](const Error& error, const Tcp::endpoint&) {
      if (failed("connecting", error)) return;
      Error ignored;  // without it the connection is only slower
      socket_.set_option(Tcp::no_delay(true), ignored);
      is_connected_ = true;
      options_.tls ? shake_hands(*options_.tls) : send();
    });
  }

  void shake_hands(const HttpCallerTls& tls) {
    const std::string host(without_brackets(options_.server.host));
    Error error;
    SSL_CTX_set_min_proto_version(context_.native_handle(), TLS1_2_VERSION);
    if (tls.authorities.empty()) {
      context_.set_default_verify_paths(error);
    } else {
      context_.add_certificate_authority(asio::buffer(tls.authorities), error);
    }
    if (!error && !tls.certificates.empty()) {
      context_.use_certificate_chain(asio::buffer(tls.certificates), error);
      if (!error) context_.use_private_key(asio::buffer(tls.key), asio::ssl::context::pem, error);
    }
    if (failed("the files of TLS", error)) return;
    secure_.emplace(socket_, context_);
    secure_->set_verify_mode(asio::ssl::verify_peer);
    secure_->set_verify_callback(asio::ssl::host_name_verification(host));
    SSL_set_tlsext_host_name(secure_->native_handle(), host.c_str());
    secure_->async_handshake(asio::ssl::stream_base::client, [this](const Error& ended) {
      if (!failed("TLS", ended)) send();
    });
  }

  void send() { options_.tls ? write(*secure_) : write(socket_); }

  template <typename Stream>
  void write(Stream& stream) {
    http::async_write(stream, request_, [this, &stream](const Error& error, std::size_t) {
      if (!failed("sending", error)) read(stream);
    });
  }

  template <typename Stream>
  void read(Stream& stream) {
    http::async_read_some(stream, buffer_, *reply_,
                          [this, &stream](const Error& error, std::size_t) {
                            if (failed("its reply", error) || !hand_over()) return;
                            if (!reply_->is_done()) return read(stream);
                            http::response<http::string_body>& reply = reply_->get();
                            result_ = HttpReply{.status = reply.result_int(),
                                                .body = std::move(reply.body()),
                                                .retry_after = retry_after(reply)};
                          });
  }

  // Hands what has come of a streamed body over; false if that ended the call.
  bool hand_over() {
    if (!asked_->on_body || !reply_->is_header_done() || reply_->get().result_int() != 200) {
      return true;
    }
    until_ = SystemClock().now() + asked_->timeout;
    const std::string piece = std::exchange(reply_->get().body(), {});
    const Status taken = piece.empty() ? Status() : asked_->on_body(piece);
    if (!taken.ok()) result_ = taken;
    return taken.ok();
  }

  const HttpCallerOptions& options_;
  const OutgoingRequest* asked_ = nullptr;  // by the exchange that runs
  TimePoint until_;
  asio::io_context loop_{1};
  asio::ssl::context context_{asio::ssl::context::tls_client};
  Tcp::resolver resolver_;
  Tcp::socket socket_;
  std::optional<asio::ssl::stream<Tcp::socket&>> secure_;  // nothing before TLS's greeting
  bool is_connected_ = false;
  http::request<http::string_body> request_;
  std::optional<http::response_parser<http::string_body>> reply_;
  boost::beast::flat_buffer buffer_;
  std::optional<Result<HttpReply>> result_;
};

HttpCaller::HttpCaller(HttpCallerOptions options) : options_(std::move(options)) {}
HttpCaller::~HttpCaller() = default;

Result<HttpReply> HttpCaller::call(const OutgoingRequest& request, const std::stop_token& stop) {
  const bool was_kept = connection_ != nullptr;
  if (!was_kept) connection_ = std::make_unique<Connection>(options_);
  Result<HttpReply> reply = connection_->exchange(request, stop);
  const bool was_closed =
      was_kept && reply.status().code() == StatusCode::kUnavailable && !connection_->has_heard();
  if (was_closed) {
    connection_ = std::make_unique<Connection>(options_);
    reply = connection_->exchange(request, stop);
  }
  if (!reply.ok() || !connection_->is_kept()) connection_.reset();
  return reply;
}

}  // namespace outrider
