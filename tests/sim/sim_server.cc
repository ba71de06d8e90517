// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_server.h"

#include <string>

namespace outrider {

SimServer::SimServer(Simulation& simulation, Model& model, const SchedulerOptions& options,
                     Pace pace)
    : simulation_(simulation),
      pace_(pace),
      report_queue_(options.report_queue),
      scheduler_(model, options) {}

StreamId SimServer::connect(VerifyEngine::EventSink sink) {
  const StreamId stream = next_stream_++;
  auto reports = std::make_shared<ExitReportChannel>(
      report_queue_, simulation_.clock(),
      [this, stream](const ExitReport& report) { emit(stream, ServerMessage(report)); });
  streams_[stream] = {std::move(sink), reports};
  apply([this, stream, reports] {
    scheduler_.connect(stream, "session-" + std::to_string(stream), simulation_.now(), reports);
  });
  return stream;
}

void SimServer::post(StreamId stream, EdgeMessage message) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  if (at->second.reports->acknowledge(message)) at->second.reports->send();
  apply([this, stream, message = std::move(message)] {
    scheduler_.receive(stream, message, simulation_.now());
    show(stream);
  });
}

void SimServer::disconnect(StreamId stream) {
  streams_.erase(stream);
  apply([this, stream] { scheduler_.disconnect(stream); });
}

void SimServer::apply(const std::function<void()>& input) {
  if (busy_) {
    waiting_.push_back(input);
    return;
  }
  input();
  go_on();
}

void SimServer::go_on() {
  scheduler_.tick(simulation_.now());
  busy_ = scheduler_.start(simulation_.now());
  deliver();
  const std::uint64_t timer = ++timer_;
  if (busy_) {
    const Duration turn = simulation_.random().between(pace_.shortest, pace_.longest);
    const Duration reports = simulation_.random().between(Duration{0}, turn);
    simulation_.after(reports, [this] { scheduler_.compute(); });
    simulation_.after(turn, [this] { finish_turn(); });
  } else if (const auto wake = scheduler_.wake_at()) {
    simulation_.at(*wake, [this, timer] {
      if (timer == timer_) go_on();
    });
  }
}

void SimServer::finish_turn() {
  scheduler_.finish(simulation_.now());
  show(scheduler_.last_served());
  deliver();
  busy_ = false;
  for (const auto& input : std::exchange(waiting_, {})) input();
  go_on();
}

void SimServer::deliver() {
  for (StreamEvent& event : scheduler_.take_events()) {
    note_rows(event);
    emit(event.stream, std::move(event.event));
  }
}

void SimServer::emit(StreamId stream, VerifierEvent event) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  const bool last = std::holds_alternative<StreamEnded>(event);
  at->second.sink(std::move(event));
  if (last) streams_.erase(stream);
}

// The rows of the pass that starts (every living node, less those left out, and the root's) say how
// long it takes.
void SimServer::note_rows(const StreamEvent& event) {
  const auto* message = std::get_if<ServerMessage>(&event.event);
  const auto* started = message == nullptr ? nullptr : std::get_if<Started>(message);
  if (started == nullptr || !pace_.takes) return;
  const std::size_t living = scheduler_.session(event.stream)->tree().size();
  pace_.shortest = pace_.longest = pace_.takes(living - started->left_out.size() + 1);
}

void SimServer::show(StreamId stream) {
  const VerifySession* session = scheduler_.session(stream);
  if (observe && session != nullptr) observe(stream, *session);
}

}  // namespace outrider
