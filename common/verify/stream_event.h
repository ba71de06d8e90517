// Which stream, of those that one verifier serves, an event belongs to, and whose it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/protocol/verifier.h"

namespace outrider {

using StreamId = std::uint64_t;

struct StreamEvent {
  StreamId stream;
  VerifierEvent event;
};

// For whom a stream came.
struct StreamOwner {
  std::string tenant = {};  // whose session ids and keys these are; empty: no one was asked
  std::string group = {};   // with whom it shares what is kept; the tenant, or the peer's address
  std::string request_id = {};  // for the log; empty: none came
};

}  // namespace outrider
