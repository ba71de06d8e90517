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

  // Goes with the answer, whatever it will be. Before respond() and begin().
  void add_header(std::string name, std::string value);

  // Once, and not after begin().
  void respond(HttpResponse response);

  // The head of a stream; the body that it holds is its first piece.
  void begin(HttpResponse head);
  // False if the client is gone or too far behind: nothing more will reach it.
  bool write(const std::string& bytes);
  void end();

  // The client has closed its connection. It is looked at, not remembered: ask again.
  bool client_is_gone();

 private:
  friend class HttpServer;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace outrider
