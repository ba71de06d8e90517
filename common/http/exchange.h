// One request being answered: at once, later, or piece by piece, from any thread.
//
//   respond                      a whole answer
//   begin write* end             a stream, sent as it grows
//
// Bounds: what a slow reader is owed; beyond it write() gives false, and the stream ends.
// Thread rule: any thread. Ownership: shared by the server and by who answers; outlives the
// server harmlessly. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/http/message.h"

namespace outrider {

class HttpExchange final {
 public:
  struct Parts;
  explicit HttpExchange(std::unique_ptr<Parts> parts);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // Once, and not after begin().
  void respond(HttpResponse response);

  // The head of a stream; the body that it holds is its first piece. filler: what its reader skips,
  // as a comment; it may be written between pieces to learn whether the client is still there.
  void begin(HttpResponse head, std::string filler = {});
  // False if the client is gone or too far behind: nothing more will reach it.
  bool write(const std::string& bytes);
  void end();

  // Whether the client has closed its connection. It is looked at, not remembered: ask again. A
  // client may end its own side alone once it has asked (RFC 9112, 9.6), which looks the same until
  // something is sent: then it is sent a filler, or before an answer has begun "100 Continue".
  bool client_is_gone();

 private:
  friend class HttpServer;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace outrider
