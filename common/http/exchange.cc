// SPDX-License-Identifier: Apache-2.0
#include "common/http/exchange.h"

#include <microhttpd.h>
#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/request_headers.h"

namespace outrider {
namespace {

// Limit of bytes for a reader that stalls.
constexpr std::size_t kMaxUnsent = std::size_t{4} << 20;

}  // namespace

const std::string& HttpRequest::header(const std::string& name) const {
  static const std::string none;
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return none;
}

std::string_view HttpRequest::bearer_key() const {
  return bearer_key_in(header("authorization"));
}

HttpExchange::HttpExchange(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HttpExchange::~HttpExchange() = default;

void HttpExchange::respond(HttpResponse response) {
  const MutexLock lock(parts_->mu);
  if (parts_->state != Parts::State::kWaiting) return;
  parts_->state = Parts::State::kWhole;
  parts_->response = std::move(response);
  parts_->resume();
}

void HttpExchange::begin(HttpResponse head, std::string filler) {
  const MutexLock lock(parts_->mu);
  if (parts_->state != Parts::State::kWaiting) return;
  parts_->state = Parts::State::kStream;
  parts_->unsent = std::exchange(head.body, {});
  parts_->filler = std::move(filler);
  parts_->response = std::move(head);
  parts_->resume();
}

bool HttpExchange::write(const std::string& bytes) {
  const MutexLock lock(parts_->mu);
  if (parts_->connection == nullptr || parts_->ended) return false;
  parts_->unsent += bytes;
  if (parts_->unsent.size() > kMaxUnsent) {
    parts_->ended = true;
    parts_->unsent.clear();
  }
  parts_->resume();
  return !parts_->ended;
}

void HttpExchange::end() {
  const MutexLock lock(parts_->mu);
  parts_->ended = true;
  parts_->resume();
}

// The library does not watch a suspended connection, so the socket is polled.
bool HttpExchange::client_is_gone() {
  const MutexLock lock(parts_->mu);
  if (parts_->connection == nullptr) return true;
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(parts_->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (info == nullptr) return false;
  pollfd socket{.fd = info->connect_fd, .events = POLLRDHUP, .revents = 0};
  if (poll(&socket, 1, 0) <= 0) return false;
  if ((socket.revents & (POLLHUP | POLLERR)) != 0) return true;
  if ((socket.revents & POLLRDHUP) != 0) parts_->probe(info->connect_fd);
  return false;
}

void HttpExchange::Parts::resume() {
  if (!suspended) return;
  suspended = false;
  MHD_resume_connection(connection);
}

void HttpExchange::Parts::suspend() {
  suspended = true;
  MHD_suspend_connection(connection);
}

// A peer that has closed both sides answers with a reset, which the next call sees.
void HttpExchange::Parts::probe(int fd) {
  constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
  if (probed || ended) return;
  if (state == State::kStream && !filler.empty()) {
    unsent += filler;
    resume();
    probed = true;
  } else if (state == State::kWaiting && suspended && reads_interim) {
    // The library sends nothing while suspended. If the socket's buffer is full, nothing is sent
    // and nothing is lost.
    probed = send(fd, kInterim.data(), kInterim.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  }
}

}  // namespace outrider
