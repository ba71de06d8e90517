// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/send_queue.h"

#include <utility>

#include "proto/codec.h"
#include "proto/frame_padding.h"

namespace outrider {
namespace {

ServerMessage telling_of_padding(const Opened& opened) {
  Opened told = opened;
  told.pad_frames = true;
  return told;
}

}  // namespace

bool SendQueue::push(const ServerMessage& message) {
  const bool is_report = std::holds_alternative<ExitReport>(message);
  if (std::holds_alternative<Verdict>(message)) {
    if (padded_) {
      fill_up_reports();
    } else {
      drop_reports();
    }
  }
  if (waiting_.size() >= max_messages_) {
    if (is_report) return true;  // dropped: advice matters least
    drop_reports();
    if (waiting_.size() >= max_messages_) return false;
  }
  const auto* opened = std::get_if<Opened>(&message);
  if (padded_ && opened != nullptr) {
    exits_ = opened->exits.size();
    add(false, serialize(telling_of_padding(*opened)));
  } else {
    add(is_report, serialize(message));
  }
  return true;
}

void SendQueue::add(bool is_report, std::string bytes) {
  if (padded_) pad_frame(bytes);
  if (is_report) ++reports_of_pass_;
  bytes_taken_ += bytes.size();
  waiting_.push_back({is_report, std::move(bytes)});
}

void SendQueue::fill_up_reports() {
  while (reports_of_pass_ < exits_ && waiting_.size() < max_messages_) add(true, {});
  reports_of_pass_ = 0;
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
