// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/exchange.h"

#include <poll.h>

#include <utility>

#include "common/serving/http/error_response.h"

namespace outrider {
namespace {

// Limit of bytes for a reader that stalls.
constexpr std::size_t kMaxUnsent = std::size_t{4} << 20;

}  // namespace

void HttpExchange::set_whole(HttpResponse response) {
  state_ = State::kWhole;
  head_ = std::move(response);
  stop(Outgoing::Then::kEnd);
}

void HttpExchange::respond(HttpResponse response) {
  const MutexLock lock(mu_);
  if (state_ == State::kWaiting) set_whole(std::move(response));
}

void HttpExchange::begin(HttpResponse head, StreamWords words) {
  const MutexLock lock(mu_);
  if (state_ != State::kWaiting) return;
  state_ = State::kStream;
  unsent_ = std::exchange(head.body, {});
  words_ = std::move(words);
  head_ = std::move(head);
  wake();
}

bool HttpExchange::write(const std::string& bytes) {
  const MutexLock lock(mu_);
  if (reader_.fd < 0 || then_ != Outgoing::Then::kMore) return false;
  if (unsent_.size() + being_sent_ + bytes.size() > kMaxUnsent) {
    stop(Outgoing::Then::kAbort);
    return false;
  }
  unsent_ += bytes;
  wake();
  return true;
}

void HttpExchange::end() {
  const MutexLock lock(mu_);
  stop(state_ == State::kWaiting ? Outgoing::Then::kAbort : Outgoing::Then::kEnd);
}

void HttpExchange::cut() {
  const MutexLock lock(mu_);
  stop(state_ == State::kWaiting ? Outgoing::Then::kAbort : Outgoing::Then::kCut);
}

void HttpExchange::abort() {
  const MutexLock lock(mu_);
  stop(Outgoing::Then::kAbort);
}

void HttpExchange::cut_by_server() {
  const MutexLock lock(mu_);
  if (then_ != Outgoing::Then::kMore) return;
  if (state_ == State::kWaiting) {
    set_whole(error_response(unavailable("this server is shutting down; repeat the request")));
  } else {
    unsent_ += words_.cut;
    stop(Outgoing::Then::kCut);
  }
}

void HttpExchange::stop(Outgoing::Then how) {
  if (then_ != Outgoing::Then::kMore) return;
  then_ = how;
  if (how == Outgoing::Then::kAbort) unsent_ = {};
  wake();
}

void HttpExchange::wake() {
  if (reader_.fd < 0 || woken_) return;
  woken_ = true;
  reader_.wake();
}

// Nothing is read from a client that waits for its answer, so the socket is polled.
bool HttpExchange::client_is_gone() {
  const MutexLock lock(mu_);
  if (reader_.fd < 0) return true;
  pollfd socket{.fd = reader_.fd, .events = POLLRDHUP, .revents = 0};
  if (poll(&socket, 1, 0) <= 0) return false;
  if ((socket.revents & (POLLHUP | POLLERR)) != 0) return true;
  if ((socket.revents & POLLRDHUP) != 0) probe();
  return false;
}

// A peer that has closed both sides answers with a reset, which the next call sees.
void HttpExchange::probe() {
  if (probed_ || then_ != Outgoing::Then::kMore) return;
  if (state_ == State::kStream) {
    if (words_.filler.empty()) return;
    unsent_ += words_.filler;
  } else {
    if (!reader_.reads_interim) return;
    interim_ = true;
  }
  probed_ = true;
  wake();
}

HttpExchange::Outgoing HttpExchange::take() {
  const MutexLock lock(mu_);
  woken_ = false;
  Outgoing out;
  out.then = then_;
  out.is_stream = state_ == State::kStream;
  out.interim = std::exchange(interim_, false) && state_ == State::kWaiting;
  if (then_ == Outgoing::Then::kAbort || state_ == State::kWaiting) return out;
  out.head = std::exchange(head_, std::nullopt);
  out.piece = std::exchange(unsent_, {});
  being_sent_ = out.piece.size();
  return out;
}

void HttpExchange::forget_reader() {
  const MutexLock lock(mu_);
  reader_ = {};
  stop(Outgoing::Then::kAbort);
}

}  // namespace outrider
