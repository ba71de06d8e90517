// Checks whether a server is reachable, without a stream to it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "common/base/clock.h"

namespace outrider {

struct LinkProbed {
  bool good = false;
  Duration took{0};
};

// Thread rule: probe() and stop() from one thread; neither waits for the link. `done` is called on
// the probe's own thread, once for each probe(), unless stop() was called before.
class LinkProbe {
 public:
  virtual ~LinkProbe() = default;

  using Done = std::function<void(LinkProbed)>;

  // Call only when no probe is pending. patience: after this time the server counts as unreachable.
  virtual void probe(Duration patience, Done done) = 0;

  // `done` is not called after it returns.
  virtual void stop() = 0;
};

}  // namespace outrider
