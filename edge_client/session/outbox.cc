// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/outbox.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "edge_client/session/opening.h"

namespace outrider {
namespace {

// The share of the verifier's run-ahead after which an edge that has nothing else to send
// acknowledges: it must never be the reason for a pause.
constexpr std::uint32_t kAcksPerRunAhead = 8;

}  // namespace

void Outbox::send(EdgeMessage::Body body, TimePoint now) {
  observers_.notify(&SessionObserver::on_sent, body, now);
  stream_.acked = tree_.end();
  if (!std::exchange(stream_.asked, true)) stream_.waits_since = now;
  add(Send{{stream_.acked, stream_.reports_seen, std::move(body)}});
}

void Outbox::add(SpeculationActions actions, TimePoint now) {
  for (SpeculationAction& action : actions) {
    if (auto* grow = std::get_if<Grow>(&action)) {
      send(std::move(*grow), now);
    } else if (auto* policy = std::get_if<Policy>(&action)) {
      send(*policy, now);
    } else if (auto* run = std::get_if<RunDraftStep>(&action)) {
      add(std::move(*run));
    } else if (auto* line = std::get_if<Say>(&action)) {
      add(std::move(*line));
    } else {
      add(AbandonDraftStep{});
    }
  }
}

void Outbox::send_prefix(TimePoint now) {
  for (Prefix& piece : prefix_pieces(tree_.text())) send(std::move(piece), now);
}

void Outbox::acknowledge(std::uint32_t run_ahead, TimePoint now) {
  const Position step = std::max<Position>(1, run_ahead / kAcksPerRunAhead);
  if (tree_.end() - stream_.acked >= step) send(AckOnly{}, now);
}

}  // namespace outrider
