// SPDX-License-Identifier: Apache-2.0
#include "bench/link/stream_pipe.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace outrider {

void StreamPipe::take() {
  std::array<char, 65536> some;
  room_at_.reset();
  while (wants_to_read()) {
    if (!stream_.has_room(clock_.now())) {
      room_at_ = stream_.room_at();
      return;
    }
    const std::size_t most = std::min(some.size(), stream_.largest_piece());
    const ssize_t got = recv(from_, some.data(), most, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0) broken_ = true;
    if (got < 0) return;
    // Read after the bytes were there, so that none is early however long this thread had to wait.
    const Duration now = clock_.now();
    if (got == 0) {
      ended_ = true;
      end_due_ = stream_.send_end(now);
      return;
    }
    const std::optional<Duration> due = stream_.send(static_cast<std::size_t>(got), now);
    if (!due) continue;  // these bytes never arrive
    in_flight_ += static_cast<std::size_t>(got);
    chunks_.push_back({*due, {some.data(), some.data() + got}});
  }
}

// False if the socket takes no more for now.
bool StreamPipe::write_front() {
  Chunk& chunk = chunks_.front();
  while (chunk.written < chunk.bytes.size()) {
    const ssize_t put = send(to_, chunk.bytes.data() + chunk.written,
                             chunk.bytes.size() - chunk.written, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      blocked_ = errno == EAGAIN || errno == EWOULDBLOCK;
      broken_ = !blocked_;
      return false;
    }
    chunk.written += static_cast<std::size_t>(put);
    in_flight_ -= static_cast<std::size_t>(put);
    count_.fetch_add(static_cast<std::uint64_t>(put), std::memory_order_relaxed);
  }
  chunks_.pop_front();
  return true;
}

void StreamPipe::deliver() {
  const Duration now = clock_.now();
  blocked_ = false;
  while (!chunks_.empty() && chunks_.front().due <= now) {
    if (!write_front()) return;
  }
  if (end_due_ && !finished_ && chunks_.empty() && *end_due_ <= now) {
    shutdown(to_, SHUT_WR);
    finished_ = true;
  }
}

std::optional<Duration> StreamPipe::next_due() const {
  if (broken_) return std::nullopt;
  std::optional<Duration> next = room_at_;
  const auto earlier = [&next](Duration due) { next = std::min(next.value_or(due), due); };
  if (!blocked_ && !chunks_.empty()) earlier(chunks_.front().due);
  if (!blocked_ && chunks_.empty() && end_due_ && !finished_) earlier(*end_due_);
  return next;
}

}  // namespace outrider
