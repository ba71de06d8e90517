// Collects an Open and what follows it until its session is opened: the ids of a prefix that is not
// in it, because they come in Prefix messages or were requested; and other messages, which wait.
//
//   take*  (complete: open take*)  release
//
// Bounds: the prefix by the target's context, waiting messages by kMaxWaiting. The owner bounds
// total memory and time by bytes() and deadline(). Thread rule: pure; owned by its stream.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"

namespace outrider {

class OpenAssembly final {
 public:
  static constexpr std::size_t kMaxWaiting = 64;

  // first: holds an Open, with its prefix or with a prefix_length.
  OpenAssembly(EdgeMessage first, TimePoint now);

  // Takes a following message; an error ends the stream.
  Status take(const EdgeMessage& message, TimePoint now);
  bool complete() const { return open().prefix.size() == length_; }
  // With as much of its prefix as is there.
  const Open& open() const { return std::get<Open>(messages_.front().body); }
  // Memory of everything collected.
  std::size_t bytes() const { return bytes_; }

  // The deadline counts from the last piece.
  TimePoint deadline(Duration timeout) const { return last_piece_ + timeout; }

  // The Open with its prefix, then the waiting messages. The object is empty afterwards.
  std::vector<EdgeMessage> release();

 private:
  Status add(const Prefix& piece);

  std::vector<EdgeMessage> messages_;  // the Open first
  std::size_t length_;                 // of the whole prefix
  TimePoint last_piece_;
  std::size_t bytes_;  // in memory
};

}  // namespace outrider
