// What a session wants done for the event at hand: actions in their order, and messages that
// acknowledge what has come.
//
//   (send | add)* take
//
// Thread rule: owned by the session, as is what it refers to. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/tree/mirrored_tree.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/session/events.h"
#include "edge_client/session/stream_state.h"

namespace outrider {

class Outbox final {
 public:
  Outbox(const MirroredTree& tree, StreamState& stream, const ObserverList& observers)
      : tree_(tree), stream_(stream), observers_(observers) {}

  void send(EdgeMessage::Body body, TimePoint now);
  // Speculation's actions; those that are messages are sent.
  void add(SpeculationActions actions, TimePoint now);
  void add(SessionAction action) { actions_.push_back(std::move(action)); }
  void add_all(std::vector<Say> lines) {
    for (Say& line : lines) add(std::move(line));
  }
  // The committed text, where it did not go with its Open.
  void send_prefix(TimePoint now);
  // Sends an acknowledgement if the verifier would soon pause for want of one.
  void acknowledge(std::uint32_t run_ahead, TimePoint now);

  SessionActions take() { return std::exchange(actions_, {}); }

 private:
  const MirroredTree& tree_;
  StreamState& stream_;
  const ObserverList& observers_;
  SessionActions actions_;
};

}  // namespace outrider
