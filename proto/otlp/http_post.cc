// SPDX-License-Identifier: Apache-2.0
#include "proto/otlp/http_post.h"

#include <openssl/ssl.h>

#include <algorithm>
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
#include <chrono>
#include <optional>

namespace outrider {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Error = boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr Duration kLook = std::chrono::milliseconds(50);  // between two looks for a stop
constexpr std::uint64_t kMaxReply = std::uint64_t{1} << 20;

// The request's steps, each begun by the end of the one before.
class Exchange final {
 public:
  explicit Exchange(const HttpPost& post)
      : post_(post), resolver_(loop_), socket_(loop_), secure_(socket_, context_) {
    request_.method(http::verb::post);
    request_.target(post.path);
    request_.version(11);
    request_.set(http::field::host, post.server.to_string());
    request_.set(http::field::content_type, post.content_type);
    request_.set(http::field::connection, "close");
    for (const auto& [name, value] : post.headers) request_.set(name, value);
    request_.body() = post.body;
    request_.prepare_payload();
    reply_.body_limit(kMaxReply);
  }

  Result<std::string> run(const std::stop_token& stop) {
    resolve();
    const TimePoint until = SystemClock().now() + post_.timeout;
    while (!result_) {
      if (stop.stop_requested()) return cancelled("interrupted");
      if (SystemClock().now() >= until) return deadline_exceeded("no reply came in time");
      loop_.run_for(kLook);
      if (loop_.stopped()) loop_.restart();
    }
    return *std::move(result_);
  }

 private:
  // True if the step failed, whose error then is the result.
  bool failed(const char* step, const Error& error) {
    if (error) result_ = unavailable(std::string(step) + ": " + error.message());
    return error.failed();
  }

  void resolve() {
    const std::string host(without_brackets(post_.server.host));
    resolver_.async_resolve(host, std::to_string(post_.server.port),
                            [this](const Error& error, const Tcp::resolver::results_type& found) {
                              if (!failed("its name", error)) connect(found);
                            });
  }

  void connect(const Tcp::resolver::results_type& found) {
    asio::async_connect(socket_, found, [this](const Error& error, const Tcp::endpoint&) {
      if (failed("connecting", error)) return;
      post_.tls ? shake_hands() : write(socket_);
    });
  }

  void shake_hands() {
    const std::string host(without_brackets(post_.server.host));
    context_.set_default_verify_paths();
    secure_.set_verify_mode(asio::ssl::verify_peer);
    secure_.set_verify_callback(asio::ssl::host_name_verification(host));
    SSL_set_tlsext_host_name(secure_.native_handle(), host.c_str());
    secure_.async_handshake(asio::ssl::stream_base::client, [this](const Error& error) {
      if (!failed("TLS", error)) write(secure_);
    });
  }

  template <typename Stream>
  void write(Stream& stream) {
    http::async_write(stream, request_, [this, &stream](const Error& error, std::size_t) {
      if (!failed("sending", error)) read(stream);
    });
  }

  template <typename Stream>
  void read(Stream& stream) {
    http::async_read(stream, buffer_, reply_, [this](const Error& error, std::size_t) {
      if (failed("its reply", error)) return;
      const unsigned status = reply_.get().result_int();
      if (status / 100 == 2) {
        result_ = std::move(reply_.get().body());
      } else {
        result_ = unavailable("it answers with the status " + std::to_string(status));
      }
    });
  }

  const HttpPost& post_;
  asio::io_context loop_{1};
  asio::ssl::context context_{asio::ssl::context::tls_client};
  Tcp::resolver resolver_;
  Tcp::socket socket_;
  asio::ssl::stream<Tcp::socket&> secure_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> reply_;
  boost::beast::flat_buffer buffer_;
  std::optional<Result<std::string>> result_;
};

}  // namespace

Result<std::string> http_post(const HttpPost& post, const std::stop_token& stop) {
  return Exchange(post).run(stop);
}

}  // namespace outrider
