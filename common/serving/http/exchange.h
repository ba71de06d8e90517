// One request being answered: at once, later, or piece by piece, from any thread.
//
//   respond                      a whole answer
//   begin write* end             a stream, sent as it grows
//   begin write* cut             a stream that ends early, and looks so
//
// An answer that is not complete never looks complete: its connection is closed without the last
// chunk of its body.
//
// Bounds: the bytes that a slow reader has not read yet; beyond it write() returns false, and the
// stream is aborted. Thread rule: any thread. Ownership: shared by the connection and the code that
// answers; may outlive the server. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/serving/http/message.h"

namespace outrider {

class HttpExchange final {
 public:
  // The client's connection. Its owner calls forget_reader() before it closes the descriptor.
  struct Reader {
    int fd = -1;
    bool reads_interim = true;   // it speaks HTTP/1.1
    std::function<void()> wake;  // there is something to take(); called from any thread
  };
  explicit HttpExchange(Reader reader) : reader_(std::move(reader)) {}
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // Call once, and not after begin().
  void respond(HttpResponse response);

  // Words of a stream that the server says by itself.
  struct StreamWords {
    std::string filler;  // readers skip it; sent to detect whether the client is still connected
    std::string cut;     // says that the server ends before the answer does
  };
  // The head of a stream; its body is the first piece.
  void begin(HttpResponse head, StreamWords words = {});
  // False if the client is gone or too slow: later pieces will not reach it.
  bool write(const std::string& bytes);
  void end();
  // Ends the stream so that the client sees that its answer is not complete.
  void cut();
  // Drops what was not sent yet, and closes the connection.
  void abort();
  // The server ends: UNAVAILABLE instead of a whole answer, StreamWords::cut and cut() of a stream.
  void cut_by_server();

  // Whether the client has closed its connection. Each call checks again. A client may close only
  // its sending side after its request (RFC 9112, 9.6), which looks the same until something is
  // sent to it: then a filler is sent, or "100 Continue" before an answer has begun.
  bool client_is_gone();

  // For the connection: what is to be sent now, and what follows.
  struct Outgoing {
    enum class Then : std::uint8_t { kMore, kEnd, kCut, kAbort };
    bool interim = false;              // "100 Continue"
    std::optional<HttpResponse> head;  // once; with the body of a whole answer
    bool is_stream = false;
    std::string piece;  // of a stream
    Then then = Then::kMore;
  };
  Outgoing take();
  void forget_reader();

 private:
  enum class State : std::uint8_t { kWaiting, kWhole, kStream };
  void set_whole(HttpResponse response) OUTRIDER_REQUIRES(mu_);
  void stop(Outgoing::Then how) OUTRIDER_REQUIRES(mu_);
  void wake() OUTRIDER_REQUIRES(mu_);
  // The client has closed its sending side, or both.
  void probe() OUTRIDER_REQUIRES(mu_);

  Mutex mu_;
  Reader reader_ OUTRIDER_GUARDED_BY(mu_);
  State state_ OUTRIDER_GUARDED_BY(mu_) = State::kWaiting;
  Outgoing::Then then_ OUTRIDER_GUARDED_BY(mu_) = Outgoing::Then::kMore;
  std::optional<HttpResponse> head_ OUTRIDER_GUARDED_BY(mu_);  // until it is taken
  std::string unsent_ OUTRIDER_GUARDED_BY(mu_);                // of a stream
  std::size_t being_sent_ OUTRIDER_GUARDED_BY(mu_) = 0;        // bytes taken last
  StreamWords words_ OUTRIDER_GUARDED_BY(mu_);
  bool interim_ OUTRIDER_GUARDED_BY(mu_) = false;  // to be sent
  bool probed_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool woken_ OUTRIDER_GUARDED_BY(mu_) = false;  // since the last take()
};

}  // namespace outrider
