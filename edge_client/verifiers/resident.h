// The verifier whose target lives in this process: the same engine and sessions as the server's,
// without a wire. Gives the same text as the remote one, wherever both have the same arithmetic id.
//
// Thread rule and events: as verifier.h says. Ownership: the engine must outlive this object.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/decoding/protocol/verifier.h"
#include "common/decoding/verify/scheduling/engine.h"

namespace outrider {

class ResidentVerifier final : public Verifier {
 public:
  explicit ResidentVerifier(VerifyEngine& engine) : engine_(engine) {}
  ~ResidentVerifier() override { stop(); }

  void start(std::uint32_t epoch, EventSink sink) override;
  void send(EdgeMessage message) override;
  void stop() override;

 private:
  VerifyEngine& engine_;
  std::optional<StreamId> stream_;
};

}  // namespace outrider
