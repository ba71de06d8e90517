// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_link.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

bool is_report(const VerifierEvent& event) {
  const auto* message = std::get_if<ServerMessage>(&event);
  return message != nullptr && std::holds_alternative<ExitReport>(*message);
}

bool is_verdict(const VerifierEvent& event) {
  const auto* message = std::get_if<ServerMessage>(&event);
  return message != nullptr && std::holds_alternative<Verdict>(*message);
}

}  // namespace

SimLink::SimLink(Simulation& simulation, SimServer& server, const Options& options)
    : simulation_(simulation), server_(server), options_(options) {}

std::optional<TimePoint> SimLink::arrival(const Delays& delays, Flow& flow, TimePoint held_until,
                                          std::size_t bytes) {
  const TimePoint leaves = std::max(simulation_.now(), held_until);
  counts_.held += held_until > simulation_.now() ? 1 : 0;
  if (!flow.wire) return delayed_arrival(delays, flow, leaves, bytes);
  const auto due = flow.wire->send(bytes, options_.wire->profile_time(leaves));
  if (due) return options_.wire->simulation_time(*due);
  ++counts_.lost_for_good;
  return std::nullopt;
}

TimePoint SimLink::delayed_arrival(const Delays& delays, Flow& flow, TimePoint leaves,
                                   std::size_t bytes) {
  if (options_.bytes_per_s > 0) {
    counts_.limited += flow.free_at > leaves ? 1 : 0;
    leaves = std::max(leaves, flow.free_at) +
             from_ms(1e3 * static_cast<double>(bytes) / options_.bytes_per_s);
    flow.free_at = leaves;
  }
  const Duration delay = simulation_.random().between(delays.shortest, delays.longest);
  flow.last_arrival = std::max(flow.last_arrival, leaves + delay);
  return flow.last_arrival;
}

void SimLink::start(std::uint32_t epoch, EventSink sink) {
  stop();
  state_ = std::make_shared<State>();
  state_->epoch = epoch;
  state_->sink = std::move(sink);
  if (options_.wire != nullptr) options_.wire->open(state_->up.wire, state_->down.wire);
  const auto connected = connect(*state_);
  state_->connected = connected.value_or(TimePoint::max());
  if (!connected) return;
  const auto when = arrival(options_.up, state_->up, std::max(up_held_until_, *connected), 0);
  if (!when) return;
  simulation_.at(*when, [this, state = state_] {
    if (state->dead) return;
    // A weak reference: the server keeps the sink of a stream whose link is gone.
    const std::weak_ptr<State> weak = state;
    state->stream = server_.connect([this, weak](VerifierEvent event) {
      if (const StatePtr alive = weak.lock()) take_down(alive, std::move(event));
    });
    if (on_connected) on_connected(*state->stream);
  });
}

std::optional<TimePoint> SimLink::connect(State& state) {
  return connected_at(options_.connect_trips, simulation_.now(), [&](bool up, TimePoint at) {
    return arrival(up ? options_.up : options_.down, up ? state.up : state.down,
                   std::max(up ? up_held_until_ : down_held_until_, at), 0);
  });
}

void SimLink::send(EdgeMessage message) {
  if (!connected() || state_->connected == TimePoint::max()) return;
  if (auto* grow = std::get_if<Grow>(&message.body); grow != nullptr && !options_.same_process) {
    grow->candidates.clear();
  }
  const std::size_t size = message_size(message);
  counts_.bytes_up += size;
  messages_.push_back({.at = simulation_.now(), .bytes = size, .up = true});
  carry(state_, true, size, [this, state = state_, message = std::move(message)] {
    if (!state->dead && state->stream) server_.post(*state->stream, message);
  });
}

void SimLink::carry(const StatePtr& state, bool up, std::size_t bytes,
                    std::function<void()> arrived) {
  Flow& flow = up ? state->up : state->down;
  flow.leaving_bytes += bytes;
  flow.leaving.push_back(std::move(arrived));
  if (!flow.wire) return leave(state, up);
  if (flow.leaving.size() > 1) return;
  simulation_.after(Duration{0}, [this, state, up] { leave(state, up); });
}

void SimLink::leave(const StatePtr& state, bool up) {
  Flow& flow = up ? state->up : state->down;
  const auto leaving = std::exchange(flow.leaving, {});
  const TimePoint held_until = up ? std::max(up_held_until_, state->connected) : down_held_until_;
  const auto when = arrival(up ? options_.up : options_.down, flow, held_until,
                            std::exchange(flow.leaving_bytes, 0));
  if (!when) return;
  simulation_.at(*when, [leaving] {
    for (const auto& arrived : leaving) arrived();
  });
}

void SimLink::take_down(const StatePtr& state, VerifierEvent event) {
  if (state->dead) return;
  if (simulation_.now() < stalled_until_ || !state->unread.empty()) {
    queue_unread(state, std::move(event));
  } else {
    carry_down(state, std::move(event));
  }
}

void SimLink::carry_down(const StatePtr& state, VerifierEvent event) {
  const std::size_t size = message_size(event);
  counts_.bytes_down += size;
  carry(state, false, size, [this, size, state, event = std::move(event)] {
    messages_.push_back({.at = simulation_.now(), .bytes = size, .up = false});
    if (state->dead) return;
    if (std::holds_alternative<StreamEnded>(event)) state->dead = true;
    state->sink({state->epoch, event});
  });
}

void SimLink::queue_unread(const StatePtr& state, VerifierEvent event) {
  ++counts_.unread;
  if (is_verdict(event)) counts_.dropped_reports += std::erase_if(state->unread, is_report);
  if (state->unread.size() >= options_.max_waiting && state == state_) {
    ++counts_.overflows;
    return cut(simulation_.random().between(Duration{0}, from_ms(500)), Duration{0});
  }
  if (state->unread.empty()) read_later(state);
  state->unread.push_back(std::move(event));
}

void SimLink::read_later(const StatePtr& state) {
  simulation_.at(stalled_until_, [this, state] {
    if (simulation_.now() < stalled_until_) return read_later(state);  // it stalled once more
    for (VerifierEvent& event : std::exchange(state->unread, {})) {
      carry_down(state, std::move(event));
    }
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
    ++counts_.cuts;
    simulation_.after(edge_notices, [state] {
      state->sink({state->epoch, StreamEnded{unavailable("the link was cut")}});
    });
  }
  if (state->stream) {
    simulation_.after(server_notices, [this, state] { server_.disconnect(*state->stream); });
  }
}

TimePoint SimLink::answers_at() const {
  const TimePoint leaves =
      std::max({simulation_.now(), up_held_until_, down_held_until_, server_.up_at()});
  return leaves + options_.up.shortest + options_.down.shortest;
}

void SimLink::partition_up(Duration how_long) {
  up_held_until_ = std::max(up_held_until_, simulation_.now() + how_long);
}

void SimLink::partition_down(Duration how_long) {
  down_held_until_ = std::max(down_held_until_, simulation_.now() + how_long);
}

void SimLink::stall_reader(Duration how_long) {
  stalled_until_ = std::max(stalled_until_, simulation_.now() + how_long);
}

}  // namespace outrider
