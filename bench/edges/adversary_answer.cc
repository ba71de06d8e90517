// SPDX-License-Identifier: Apache-2.0
#include "bench/edges/adversary_answer.h"

#include <string>
#include <utility>

#include "bench/edges/event_queue.h"

namespace outrider {
namespace {

Result<std::vector<TokenId>> play(Adversary& adversary, EventQueue& events, int chain_length) {
  const std::size_t prompt = adversary.script().open.prefix.size();
  while (true) {
    const VerifierEvent event = events.next();
    if (const auto* ended = std::get_if<StreamEnded>(&event)) {
      if (!ended->status.ok()) return ended->status;
      const auto text = adversary.tree().text().subspan(prompt);
      return std::vector<TokenId>(text.begin(), text.end());
    }
    const auto& message = std::get<ServerMessage>(event);
    const auto* verdict = std::get_if<Verdict>(&message);
    const Position end = adversary.tree().end();
    if (verdict != nullptr && verdict->position != end) {
      return internal_error("verdict at " + std::to_string(verdict->position) +
                            ", but the text ends at " + std::to_string(end));
    }
    adversary.take(message);
    if (std::holds_alternative<Started>(message)) adversary.send_strays();
    if (verdict != nullptr) adversary.send_round(chain_length);
  }
}

}  // namespace

Result<std::vector<TokenId>> answer_with_adversary(Verifier& verifier, AdversaryScript script,
                                                   int chain_length, std::uint64_t seed) {
  EventQueue events;
  SimRandom random(seed);
  Adversary adversary(std::move(script), random,
                      [&](EdgeMessage message) { verifier.send(std::move(message)); });
  verifier.start(1, events.sink());
  adversary.open_stream("");
  adversary.send_round(chain_length);
  Result<std::vector<TokenId>> answer = play(adversary, events, chain_length);
  verifier.stop();  // before the queue that it fills goes
  return answer;
}

}  // namespace outrider
