// Whose turn at the device it is: turns go round among groups (a tenant, an address), and within a
// group among its streams, so that who has many streams has no more of the device than who has one.
//
// Turns are numbered; a stream that has had none yet stands where it came in.
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "common/verify/stream_event.h"

namespace outrider {

struct TurnSeeker {
  StreamId stream = 0;
  std::string_view group;
  std::uint64_t joined = 0;  // the last turn of all when it came
  std::uint64_t served = 0;  // its own last turn; 0: it has had none
  bool wants = false;        // the device, now
};

// The group that was served longest ago, and in it the stream; nothing: none wants the device.
std::optional<StreamId> next_in_turn(std::span<const TurnSeeker> streams);

// How many turns a stream may have to wait for its next, if all want the device.
std::size_t longest_round(std::span<const TurnSeeker> streams);

}  // namespace outrider
