// An Open whose prefix is not in it: the ids come in Prefix messages, piece by piece, or are asked
// for because nothing here has the hash. What else the edge sends meanwhile waits.
//
//   take*  complete  release
//
// Bounds: the prefix by the target's context, what waits by kMaxWaiting; of all that is gathered
// and of the time, the owner keeps them by bytes() and deadline().
// Thread rule: pure; owned by its stream. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/messages.h"

namespace outrider {

class OpenAssembly final {
 public:
  static constexpr std::size_t kMaxWaiting = 64;

  // first: holds an Open with a prefix_length.
  OpenAssembly(EdgeMessage first, TimePoint now);

  // A message that follows; an error ends the stream.
  Status take(const EdgeMessage& message, TimePoint now);
  bool complete() const { return ids_.size() == length_; }
  // Of all that is here.
  std::size_t bytes() const { return bytes_; }

  // From the last piece on.
  TimePoint deadline(Duration timeout) const { return last_piece_ + timeout; }

  // The Open with its prefix, then what waited; the object is empty afterwards.
  std::vector<EdgeMessage> release();

 private:
  Status add(const Prefix& piece);

  std::vector<EdgeMessage> messages_;  // the Open first
  std::vector<TokenId> ids_;
  std::size_t length_;
  TimePoint last_piece_;
  std::size_t bytes_;  // in memory
};

}  // namespace outrider
