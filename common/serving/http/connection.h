// One client's connection to an HTTP server: reads requests one after the other, and sends their
// answers.
//
//   greet .. read a head .. look_at() .. read the body .. answer() .. send .. again
//
// Where there is TLS, the first byte tells it from plaintext, and a handshake follows, whose time
// is bounded as a whole.
//
// Nothing is read while a request is being answered. Where a connection is closed with an answer on
// its way, what the client still sends is read for a while, so that the answer arrives (RFC 9112,
// 9.6).
//
// Thread rule: the thread of the socket's executor; wake-ups of exchanges come there by themselves.
// Ownership: lives while an operation is pending or its request is being answered; finish() ends
// both. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/serving/http/connections.h"
#include "common/serving/http/exchange.h"
#include "common/serving/http/message.h"
#include "common/serving/http/request_parser.h"
#include "common/serving/http/routes.h"
#include "common/serving/http/socket.h"

namespace outrider {

class HttpConnection;

// The functions of the server that connections call, on its thread.
class HttpService {
 public:
  // The route of a request, or its refusal, both known from its head.
  struct Finding {
    const HttpRoute* route = nullptr;
    std::optional<HttpResponse> refusal = {};  // sent instead of the route's answer
    HttpHeaders headers = {};                  // of every answer to it
  };

  virtual ~HttpService() = default;
  virtual Finding look_at(HttpRequest& head) = 0;
  virtual void answer(HttpRequest request, const HttpRoute& route,
                      const std::shared_ptr<HttpExchange>& exchange,
                      const std::string& network) = 0;
  // The answer is on its way, to its last byte, or the client is gone.
  virtual void answered(const std::shared_ptr<HttpExchange>& exchange) = 0;
  virtual void closed(const std::shared_ptr<HttpConnection>& connection) = 0;

  // For a client that begins with TLS; null: there is none here.
  virtual std::shared_ptr<boost::asio::ssl::context> tls() = 0;
  // A client that speaks another protocol, or whose handshake failed.
  virtual void refused(const std::string& peer, const Status& why) = 0;

  virtual HttpConnections& connections() = 0;
  virtual Duration patience() const = 0;  // with a client that neither sends nor reads
  virtual std::size_t max_body_bytes() const = 0;
};

class HttpConnection final : public std::enable_shared_from_this<HttpConnection> {
 public:
  // service: outlives it.
  HttpConnection(HttpSocket::Plain socket, std::string peer, HttpService& service);

  void start();
  // Closes the socket. Once nothing is pending, the service's closed() is called.
  void finish();

 private:
  enum class State : std::uint8_t { kReading, kAnswering, kDiscarding, kClosed };
  using Error = boost::system::error_code;

  void greet();
  void shake_hands();
  void refuse_tls();
  void read();
  void take_input();
  void on_head();
  void take_body(std::string_view bytes);
  void hand_over();
  // Sends what the exchange has, unless something is being sent.
  void flush();
  void respond(const HttpResponse& response, bool closes);
  void send(HttpExchange::Outgoing out);
  void frame_stream(const HttpExchange::Outgoing& out);
  std::string head_of(const HttpResponse& response, bool is_stream) const;
  void on_sent(const Error& error);
  void next_request();
  // Ends the sending side, and then reads what still comes for a while.
  void end_sending();
  void discard();
  void reset();

  // A timeout while an operation is pending.
  void arm(Duration patience);
  void disarm();
  void end_request();

  HttpSocket socket_;
  const std::string peer_;
  HttpService& service_;
  SystemClock clock_;
  HttpConnections::Connection* place_ = nullptr;  // null: before start() and after finish()
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;  // what was read and not parsed yet
  HttpRequestParser parser_;
  State state_ = State::kReading;

  // The request that is being read or answered.
  std::string id_;
  HttpService::Finding finding_;
  std::size_t dropped_ = 0;  // bytes of a body, or of what follows the last answer
  bool is_head_method_ = false;
  bool closes_ = false;       // after its answer
  bool is_unframed_ = false;  // a stream to a client of HTTP/1.0, which ends with the connection
  std::shared_ptr<HttpExchange> exchange_;

  // The buffers of the write that is pending.
  bool is_sending_ = false;
  std::string prefix_;
  std::string body_;
  std::string suffix_;
  HttpExchange::Outgoing::Then then_ = HttpExchange::Outgoing::Then::kMore;
};

}  // namespace outrider
