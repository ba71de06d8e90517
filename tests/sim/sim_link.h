// A link between an edge and a SimServer: delays of its own in each direction, and cuts. Ordered
// and without duplicates within each direction, as a stream is; the two directions cross freely.
//
// To the edge it is a Verifier whose events come on the simulation's thread.
// Thread rule: one thread. Ownership: simulation and server outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/protocol/verifier.h"
#include "tests/sim/sim_server.h"
#include "tests/sim/simulation.h"

namespace outrider {

class SimLink final : public Verifier {
 public:
  struct Delays {
    Duration shortest{0};
    Duration longest{0};
  };

  SimLink(Simulation& simulation, SimServer& server, Delays up, Delays down);

  void start(std::uint32_t epoch, EventSink sink) override;
  void send(EdgeMessage message) override;
  void stop() override;

  // Loses what is on its way in both directions. The edge is told after `edge_notices`
  // (StreamEnded, UNAVAILABLE), the server after `server_notices`: until then it is half open.
  void cut(Duration edge_notices, Duration server_notices);

  bool connected() const { return state_ != nullptr && !state_->dead; }

  // Called when a new stream has reached the server.
  std::function<void(StreamId)> on_connected;

 private:
  // One stream of the link. Events on their way hold it; the dead one's come to nothing.
  struct State {
    std::uint32_t epoch = 0;
    EventSink sink;
    std::optional<StreamId> stream;
    TimePoint last_up;
    TimePoint last_down;
    bool dead = false;
  };
  using StatePtr = std::shared_ptr<State>;

  TimePoint arrival(const Delays& delays, TimePoint& last);
  void carry_down(const StatePtr& state, VerifierEvent event);

  Simulation& simulation_;
  SimServer& server_;
  const Delays up_;
  const Delays down_;
  StatePtr state_;
};

}  // namespace outrider
