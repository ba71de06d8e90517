// The socket of an HTTP client: in plaintext or, after a handshake, under TLS.
//
// Thread rule: the thread of its executor, at most one operation at a time. Ownership: outlives its
// operations. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_stream.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/serving/http/tls.h"

namespace outrider {

class HttpSocket final {
 public:
  using Plain = boost::asio::generic::stream_protocol::socket;
  using Error = boost::system::error_code;

  explicit HttpSocket(Plain socket) : plain_(std::move(socket)) {}
  Plain::executor_type get_executor() { return plain_.get_executor(); }
  int native_handle() { return plain_.native_handle(); }

  // No request begins with the byte of a handshake's record. bytes: the connection's first.
  static bool begins_with_tls(boost::asio::const_buffer bytes) {
    return bytes.size() > 0 && *static_cast<const char*>(bytes.data()) == 0x16;
  }

  // handler(Error, bool): whether the client begins with TLS. What it has sent stays unread.
  template <typename Handler>
  void async_greet(Handler handler) {
    plain_.async_wait(Plain::wait_read, [this, handler](const Error& error) {
      char first = 0;
      const ssize_t got = recv(native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
      handler(error, got == 1 && begins_with_tls({&first, 1}));
    });
  }
  // handler(Error). After an error, what is read and written is plaintext.
  template <typename Handler>
  void async_handshake(std::shared_ptr<boost::asio::ssl::context> context, Handler handler) {
    context_ = std::move(context);
    tls_.emplace(plain_, *context_);
    tls_->next_layer().async_handshake(boost::asio::ssl::stream_base::server,
                                       [this, handler](const Error& error) {
                                         is_secure_ = !error;
                                         handler(error);
                                       });
  }
  bool is_secure() const { return is_secure_; }
  // The common name of the client's certificate (tls.h); nothing in plaintext.
  std::optional<std::string> client_name() {
    if (!is_secure_) return std::nullopt;
    return outrider::client_name(tls_->next_layer().native_handle());
  }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (is_secure_) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      plain_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <typename Buffers, typename Condition, typename Handler>
  void async_write(const Buffers& buffers, Condition condition, Handler&& handler) {
    if (is_secure_) {
      boost::asio::async_write(*tls_, buffers, condition, std::forward<Handler>(handler));
    } else {
      boost::asio::async_write(plain_, buffers, condition, std::forward<Handler>(handler));
    }
  }
  // Nothing more is sent, and the client can see that nothing is missing. handler(): from then on
  // bytes are read as they came, to be dropped.
  template <typename Handler>
  void async_end_sending(Handler handler) {
    if (!std::exchange(is_secure_, false)) {
      end_sending();
      return handler();
    }
    tls_->next_layer().async_shutdown([this, handler](const Error&) {
      end_sending();
      handler();
    });
  }
  void close() {
    Error ignored;
    plain_.close(ignored);
  }

 private:
  void end_sending() {
    Error ignored;
    plain_.shutdown(Plain::shutdown_send, ignored);
  }

  Plain plain_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  // Sends small buffers that belong together as one record.
  std::optional<boost::beast::flat_stream<boost::asio::ssl::stream<Plain&>>> tls_;
  bool is_secure_ = false;
};

}  // namespace outrider
