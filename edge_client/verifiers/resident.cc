// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/resident.h"

#include <utility>

namespace outrider {

void ResidentVerifier::start(std::uint32_t epoch, EventSink sink) {
  stop();
  stream_ = engine_.connect([epoch, sink = std::move(sink)](VerifierEvent event) {
    sink({epoch, std::move(event)});
  });
}

void ResidentVerifier::send(EdgeMessage message) {
  if (stream_) engine_.post(*stream_, std::move(message));
}

void ResidentVerifier::stop() {
  if (stream_) engine_.disconnect(*std::exchange(stream_, std::nullopt));
}

}  // namespace outrider
