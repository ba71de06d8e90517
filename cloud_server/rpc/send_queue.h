// The messages that one stream's reader has not taken yet, bounded: a reader that stalls loses its
// exit reports first, then its session (docs/protocol.md).
//
// Exit reports are advice for the running pass only. They are dropped when their verdict is queued
// behind them, or when room is needed. All other messages arrive in order, or the stream ends.
//
// With padding, all messages are padded, and before each verdict there are as many reports as the
// target has exits; fillers replace missing ones (proto/frame_padding.h). Thread rule: owned by its
// stream's lock. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/decoding/protocol/messages.h"

namespace outrider {

class SendQueue final {
 public:
  // max_messages > 0: the most that may wait.
  explicit SendQueue(std::size_t max_messages) : max_messages_(max_messages) {}

  // Pads from the next message on.
  void pad() { padded_ = true; }

  // False if the reader is too far behind: then the message is lost, and the stream must end.
  [[nodiscard]] bool push(const ServerMessage& message);

  // The next message's bytes.
  std::optional<std::string> pop();

  void clear() { waiting_.clear(); }
  // Bytes of all messages taken, without dropped exit reports.
  std::uint64_t bytes_taken() const { return bytes_taken_; }
  bool empty() const { return waiting_.empty(); }
  std::size_t size() const { return waiting_.size(); }

 private:
  struct Entry {
    bool is_report;
    std::string bytes;
  };

  void add(bool is_report, std::string bytes);
  void fill_up_reports();
  void drop_reports();

  const std::size_t max_messages_;
  std::deque<Entry> waiting_;
  bool padded_ = false;
  std::size_t exits_ = 0;            // of the target, with padding
  std::size_t reports_of_pass_ = 0;  // since the last verdict
  std::uint64_t bytes_taken_ = 0;
};

}  // namespace outrider
