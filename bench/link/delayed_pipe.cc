// SPDX-License-Identifier: Apache-2.0
#include "bench/link/delayed_pipe.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace outrider {

void DelayedPipe::take(TimePoint now, Duration delay) {
  std::array<char, 65536> some;
  while (wants_to_read()) {
    const ssize_t got = recv(from_, some.data(), some.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0) broken_ = true;
    if (got < 0) return;
    last_due_ = std::max(last_due_, now + delay);
    if (got == 0) {
      ended_ = true;
      return;
    }
    in_flight_ += static_cast<std::size_t>(got);
    chunks_.push_back({last_due_, {some.data(), some.data() + got}});
  }
}

// False if the socket takes no more for now.
bool DelayedPipe::write_front() {
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

void DelayedPipe::deliver(TimePoint now) {
  blocked_ = false;
  while (!chunks_.empty() && chunks_.front().due <= now) {
    if (!write_front()) return;
  }
  if (ended_ && !finished_ && chunks_.empty() && last_due_ <= now) {
    shutdown(to_, SHUT_WR);
    finished_ = true;
  }
}

std::optional<TimePoint> DelayedPipe::next_due() const {
  if (blocked_ || broken_) return std::nullopt;
  if (!chunks_.empty()) return chunks_.front().due;
  if (ended_ && !finished_) return last_due_;
  return std::nullopt;
}

}  // namespace outrider
