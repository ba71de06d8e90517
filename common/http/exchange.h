// One request being answered: at once, later, or piece by piece, from any thread.
//
//   respond                      a whole answer
//   begin write* end             a stream, sent as it grows
//
// Bounds: the bytes that a slow reader has not read yet; beyond it write() returns false, and the
// stream ends. Thread rule: any thread. Ownership: shared by the server and the code that answers;
// may outlive the server. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/http/message.h"

struct MHD_Connection;  // of the HTTP library, which this header does not include

namespace outrider {

class HttpExchange final {
 public:
  struct Parts;
  explicit HttpExchange(std::unique_ptr<Parts> parts);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // Call once, and not after begin().
  void respond(HttpResponse response);

  // The head of a stream; its body is the first piece. filler: text that readers skip, as a
  // comment; it may be sent between pieces to detect whether the client is still connected.
  void begin(HttpResponse head, std::string filler = {});
  // False if the client is gone or too slow: later pieces will not reach it.
  bool write(const std::string& bytes);
  void end();

  // Whether the client has closed its connection. Each call checks again. A client may close only
  // its sending side after its request (RFC 9112, 9.6), which looks the same until something is
  // sent to it: then a filler is sent, or "100 Continue" before an answer has begun.
  bool client_is_gone();

 private:
  friend class HttpServer;
  const std::unique_ptr<Parts> parts_;
};

// What an exchange shares with the server that made it. Thread rule: mu guards all members.
struct HttpExchange::Parts {
  enum class State : std::uint8_t { kWaiting, kWhole, kStream };

  // Makes the server's thread look at the connection again.
  void resume() OUTRIDER_REQUIRES(mu);
  // The client has closed its sending side, or both.
  void probe(int fd) OUTRIDER_REQUIRES(mu);
  void suspend() OUTRIDER_REQUIRES(mu);

  Mutex mu;
  MHD_Connection* connection OUTRIDER_GUARDED_BY(mu) = nullptr;  // null once it is over
  State state OUTRIDER_GUARDED_BY(mu) = State::kWaiting;
  HttpResponse response OUTRIDER_GUARDED_BY(mu);
  std::string unsent OUTRIDER_GUARDED_BY(mu);  // of a stream
  std::string filler OUTRIDER_GUARDED_BY(mu);
  bool probed OUTRIDER_GUARDED_BY(mu) = false;  // a filler was sent to a half-closed connection
  bool reads_interim = true;                    // the client speaks HTTP/1.1
  bool ended OUTRIDER_GUARDED_BY(mu) = false;
  bool queued OUTRIDER_GUARDED_BY(mu) = false;  // the library has the response
  bool suspended OUTRIDER_GUARDED_BY(mu) = false;
};

}  // namespace outrider
