// SPDX-License-Identifier: Apache-2.0
#include "common/http/exchange.h"

#include <poll.h>

#include <utility>

#include "common/http/exchange_parts.h"

namespace outrider {
namespace {

// What a reader that stalls may be owed.
constexpr std::size_t kMaxUnsent = std::size_t{4} << 20;

}  // namespace

const std::string& HttpRequest::header(const std::string& name) const {
  static const std::string none;
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return none;
}

HttpExchange::HttpExchange(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
HttpExchange::~HttpExchange() = default;

void HttpExchange::add_header(std::string name, std::string value) {
  const MutexLock lock(parts_->mu);
  parts_->added.emplace_back(std::move(name), std::move(value));
}

void HttpExchange::respond(HttpResponse response) {
  const MutexLock lock(parts_->mu);
  if (parts_->state != Parts::State::kWaiting) return;
  parts_->state = Parts::State::kWhole;
  for (const auto& header : parts_->added) response.headers.push_back(header);
  parts_->response = std::move(response);
  parts_->resume();
}

void HttpExchange::begin(HttpResponse head) {
  const MutexLock lock(parts_->mu);
  if (parts_->state != Parts::State::kWaiting) return;
  parts_->state = Parts::State::kStream;
  for (const auto& header : parts_->added) head.headers.push_back(header);
  parts_->unsent = std::exchange(head.body, {});
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

// The library does not look at a connection that it was told to leave alone; the socket tells.
bool HttpExchange::client_is_gone() {
  const MutexLock lock(parts_->mu);
  if (parts_->connection == nullptr) return true;
  const MHD_ConnectionInfo* info =
      MHD_get_connection_info(parts_->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (info == nullptr) return false;
  pollfd socket{.fd = info->connect_fd, .events = POLLRDHUP, .revents = 0};
  return poll(&socket, 1, 0) > 0 && (socket.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace outrider
