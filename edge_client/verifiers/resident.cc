// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/resident.h"

#include <utility>

namespace outrider {

void ResidentVerifier::start(EventSink sink) {
  stop();
  stream_ = engine_.connect(std::move(sink));
}

void ResidentVerifier::send(EdgeMessage message) {
  if (stream_) engine_.post(*stream_, std::move(message));
}

void ResidentVerifier::stop() {
  if (stream_) engine_.disconnect(*std::exchange(stream_, std::nullopt));
}

}  // namespace outrider
