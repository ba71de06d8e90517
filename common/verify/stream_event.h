// Which stream, of those that one verifier serves, an event belongs to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "common/protocol/verifier.h"

namespace outrider {

using StreamId = std::uint64_t;

struct StreamEvent {
  StreamId stream;
  VerifierEvent event;
};

}  // namespace outrider
