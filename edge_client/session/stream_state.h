// What a session knows of the stream to its verifier. A new stream replaces it whole.
//
// Thread rule: a value, owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/protocol/messages.h"

namespace outrider {

struct StreamState {
  std::uint32_t epoch = 0;           // of the stream; events of another epoch are late
  TimePoint opened_at{};             // when Open left
  std::uint32_t next_pass = 0;       // the number of the pass that starts next
  std::optional<Started> started{};  // the pass that runs; nothing between passes
  Position acked = 0;                // acknowledged so far
  std::uint32_t reports_seen = 0;    // the highest ExitReport.seq
  Duration asked_delay{0};           // by a Notice: how long to stay away
  bool overloaded = false;           // a Notice asked to come back later
  // Since when the verifier owes something: its last message, or the first of ours after that.
  TimePoint waits_since{};
  bool asked = false;  // a message of ours has left since
};

}  // namespace outrider
