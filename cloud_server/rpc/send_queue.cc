// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/send_queue.h"

#include <utility>

#include "proto/codec.h"

namespace outrider {

bool SendQueue::push(const ServerMessage& message) {
  const bool is_report = std::holds_alternative<ExitReport>(message);
  if (std::holds_alternative<Verdict>(message)) drop_reports();
  if (waiting_.size() >= max_messages_) {
    if (is_report) return true;  // dropped: the least of what waits
    drop_reports();
    if (waiting_.size() >= max_messages_) return false;
  }
  waiting_.push_back({is_report, serialize(message)});
  bytes_taken_ += waiting_.back().bytes.size();
  return true;
}

std::optional<std::string> SendQueue::pop() {
  if (waiting_.empty()) return std::nullopt;
  std::string bytes = std::move(waiting_.front().bytes);
  waiting_.pop_front();
  return bytes;
}

void SendQueue::drop_reports() {
  std::erase_if(waiting_, [this](const Entry& entry) {
    if (entry.is_report) bytes_taken_ -= entry.bytes.size();
    return entry.is_report;
  });
}

}  // namespace outrider
