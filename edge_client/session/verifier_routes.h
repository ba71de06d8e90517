// The verifiers between which an answer's loop connects streams.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/protocol/link_probe.h"
#include "common/protocol/verifier.h"
#include "edge_client/session/events.h"

namespace outrider {

// What they refer to outlives those who hold them.
struct VerifierRoutes {
  // One verifier, wherever it is.
  VerifierRoutes(Verifier& only) : online(&only), offline(&only) {}  // NOLINT: meant to convert
  VerifierRoutes(Verifier& server, Verifier& device, LinkProbe& link)
      : online(&server), offline(&device), probe(&link) {}

  Verifier& at(Route route) const { return route == Route::kOnline ? *online : *offline; }

  Verifier* online;
  Verifier* offline;
  LinkProbe* probe = nullptr;  // null: nobody asks
  // Why the server may not be used any more; nothing while it may. Empty: nobody forbids it.
  std::function<std::optional<std::string>()> forbidden = {};
};

}  // namespace outrider
