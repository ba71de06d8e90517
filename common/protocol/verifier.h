// The one interface between deciding and verifying (docs/design.md). Decoding does not know whether
// the target sits in a data centre (remote), in this process (resident), or on flash.
//
//   start (send | events)* stop
//
// Thread rule: start, send and stop come from one thread and do not block; events come on a thread
// of the verifier's, one at a time, until stop() returns. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>

#include "common/base/status.h"
#include "common/protocol/messages.h"

namespace outrider {

// The stream is over. After a Usage: ok. UNAVAILABLE and DEADLINE_EXCEEDED may be retried with a
// new Open, RESOURCE_EXHAUSTED after a Notice with a delay; other codes are final.
struct StreamEnded {
  Status status;
  std::string for_the_log = {};  // what the verifier's own log adds, and the edge is not told
};

using VerifierEvent = std::variant<ServerMessage, StreamEnded>;

// An event and the stream that it belongs to: the epoch with which the stream was started. So
// events of a stream, or of a verifier, that has been replaced are known as such wherever they
// arrive.
struct FromVerifier {
  std::uint32_t epoch = 0;
  VerifierEvent event;
};

class Verifier {
 public:
  virtual ~Verifier() = default;

  using EventSink = std::function<void(FromVerifier)>;

  // Begins a stream, whose events carry this epoch; the first message sent must be Open. Ends the
  // stream before, if it is still open.
  virtual void start(std::uint32_t epoch, EventSink sink) = 0;

  // Queues a message. Messages sent after the stream ended are dropped.
  virtual void send(EdgeMessage message) = 0;

  // Ends the stream if one is open; no event comes after it returns.
  virtual void stop() = 0;
};

}  // namespace outrider
