// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_link.h"

#include <algorithm>
#include <utility>

namespace outrider {

SimLink::SimLink(Simulation& simulation, SimServer& server, Delays up, Delays down)
    : simulation_(simulation), server_(server), up_(up), down_(down) {}

TimePoint SimLink::arrival(const Delays& delays, TimePoint& last) {
  const Duration delay = simulation_.random().between(delays.shortest, delays.longest);
  last = std::max(last, simulation_.now() + delay);
  return last;
}

void SimLink::start(std::uint32_t epoch, EventSink sink) {
  stop();
  state_ = std::make_shared<State>();
  state_->epoch = epoch;
  state_->sink = std::move(sink);
  simulation_.at(arrival(up_, state_->last_up), [this, state = state_] {
    if (state->dead) return;
    // A weak hold: the server keeps the sink of a stream whose link is gone.
    const std::weak_ptr<State> weak = state;
    state->stream = server_.connect([this, weak](VerifierEvent event) {
      if (const StatePtr alive = weak.lock()) carry_down(alive, std::move(event));
    });
    if (on_connected) on_connected(*state->stream);
  });
}

void SimLink::carry_down(const StatePtr& state, VerifierEvent event) {
  if (state->dead) return;
  simulation_.at(arrival(down_, state->last_down), [state, event = std::move(event)] {
    if (state->dead) return;
    if (std::holds_alternative<StreamEnded>(event)) state->dead = true;
    state->sink({state->epoch, event});
  });
}

void SimLink::send(EdgeMessage message) {
  if (!connected()) return;
  simulation_.at(arrival(up_, state_->last_up),
                 [this, state = state_, message = std::move(message)] {
                   if (!state->dead && state->stream) server_.post(*state->stream, message);
                 });
}

void SimLink::stop() {
  if (connected()) cut(Duration::max(), Duration{0});
}

void SimLink::cut(Duration edge_notices, Duration server_notices) {
  if (!connected()) return;
  state_->dead = true;
  const StatePtr state = std::exchange(state_, nullptr);
  if (edge_notices != Duration::max()) {
    simulation_.after(edge_notices, [state] {
      state->sink({state->epoch, StreamEnded{unavailable("the link was cut")}});
    });
  }
  if (state->stream) {
    simulation_.after(server_notices, [this, state] { server_.disconnect(*state->stream); });
  }
}

}  // namespace outrider
