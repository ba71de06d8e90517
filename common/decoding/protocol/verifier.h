// The interface between deciding and verifying (docs/design.md). Decoding does not know whether the
// target runs in a data centre (remote), in this process (resident), or from flash.
//
//   start (send | events)* stop
//
// Thread rule: start, send and stop come from one thread and do not block. Events come on a thread
// of the verifier, one at a time, until stop() returns. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"

namespace outrider {

// The stream is over; ok after a Usage. UNAVAILABLE and DEADLINE_EXCEEDED may be retried with a new
// Open, RESOURCE_EXHAUSTED after a Notice with a delay; other codes are final.
struct StreamEnded {
  Status status;
  std::string for_the_log = {};  // detail for the verifier's own log; not sent to the edge
};

using VerifierEvent = std::variant<ServerMessage, StreamEnded>;

// An event with the epoch of its stream, by which a receiver recognises events of a stream or
// verifier that has been replaced.
struct FromVerifier {
  std::uint32_t epoch = 0;
  VerifierEvent event;
};

class Verifier {
 public:
  virtual ~Verifier() = default;

  using EventSink = std::function<void(FromVerifier)>;

  // Begins a stream whose events carry this epoch; the first message sent must be Open. Ends the
  // previous stream if it is still open.
  virtual void start(std::uint32_t epoch, EventSink sink) = 0;

  // Queues a message. Messages sent after the end of the stream are dropped.
  virtual void send(EdgeMessage message) = 0;

  // Ends the stream if one is open. No event comes after it returns.
  virtual void stop() = 0;
};

}  // namespace outrider
