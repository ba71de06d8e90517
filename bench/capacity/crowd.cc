// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/crowd.h"

#include <algorithm>

#include "sim/sim_link.h"

namespace outrider {
namespace {

// Rounds that a client may be ahead of the text that it has.
constexpr int kMaxRoundsAhead = 4;
// The least length of an answer's part whose speed is meaningful.
constexpr int kMinTokens = 16;

}  // namespace

Crowd::Crowd(Simulation& simulation, const ClientLoad& load, CrowdServer& server, DraftHabit habit,
             int gamma)
    : simulation_(simulation),
      load_(load),
      server_(server),
      habit_(habit),
      measured_from_(TimePoint{} + load.warm_up),
      clients_(load.clients) {
  server_.on_tokens = [this](std::size_t at, int tokens) {
    const std::size_t bytes = kFrameBytes + static_cast<std::size_t>(tokens) * kTokenBytes;
    simulation_.after(load_.down.time_of(bytes),
                      [this, at, tokens] { receive(clients_[at], tokens); });
  };
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    clients_[i].request.client = i;
    clients_[i].gamma = load_.kind_of(i, gamma).gamma;
    ask_next(clients_[i]);
  }
}

void Crowd::run() {
  while (server_.status().ok() && simulation_.step(TimePoint{} + load_.end())) {
  }
}

void Crowd::ask_next(Client& client) {
  const Duration pause = think_before(load_, client.request);
  const bool poisson = load_.arrivals == Arrivals::kPoisson;
  client.due = (poisson ? client.due : simulation_.now()) + pause;
  simulation_.at(client.due, [this, &client] { ask(client); });
}

void Crowd::ask(Client& client) {
  const RequestId request = client.request;
  const RequestLengths lengths = lengths_of(load_, request);
  client.lengths = lengths;
  client.asked = simulation_.now();
  client.from.reset();
  client.tokens = 0;
  client.answering = true;
  client.end = client.sent = client.drafted = client.drafting = 0;
  ++client.chain;
  const std::size_t bytes =
      kFrameBytes + 4 * kNameBytes + static_cast<std::size_t>(lengths.prompt) * kTokenBytes;
  simulation_.after(load_.up.time_of(bytes), [this, request] { server_.open(request); });
}

void Crowd::receive(Client& client, int tokens) {
  const TimePoint now = simulation_.now();
  const bool measured = now >= measured_from_;
  client.end += tokens;
  client.last = now;
  if (measured) client.delivered += static_cast<std::uint64_t>(tokens);
  if (client.from) {
    client.tokens += measured ? tokens : 0;
  } else {
    client.from = std::max(now, measured_from_);
    if (client.asked >= measured_from_) done_.ttft_ms.push_back(to_ms(now - client.asked));
  }
  if (client.end >= client.lengths.answer) return finish(client);
  if (habit_ != DraftHabit::kNone) go_on(client, client.end - 1);
}

// The time per token of an answer that has begun; nothing if too little of it was measured to say.
std::optional<double> Crowd::tpot_ms(const Client& client) const {
  const bool complete = client.end >= client.lengths.answer;
  const bool whole = complete && client.asked >= measured_from_ && client.tokens > 0;
  if (whole || client.tokens >= kMinTokens) {
    return to_ms(client.last - *client.from) / client.tokens;
  }
  if (complete || client.asked >= measured_from_) return std::nullopt;
  const int all = client.tokens + client.lengths.answer - client.end;
  return to_ms(simulation_.now() - *client.from) / all;
}

void Crowd::finish(Client& client) {
  if (const auto tpot = tpot_ms(client)) done_.tpot_ms.push_back(*tpot);
  client.answering = false;
  ++client.chain;
  ++client.request.number;
  ask_next(client);
}

// The client has learnt of the token at `last`: drafted tokens that follow another one there are
// dropped.
void Crowd::go_on(Client& client, int last) {
  const bool ahead = client.drafting > client.end;
  if (!ahead || !stands(load_, client.request, last)) {
    ++client.chain;
    client.sent = client.drafted = client.drafting = client.end;
    return draft(client);
  }
  client.sent = std::max(client.sent, client.end);
  const bool waits_to_send = habit_ == DraftHabit::kDraftsAhead && client.drafted > client.end;
  if (waits_to_send && client.sent < client.drafted) send(client);
  if (client.drafting == client.drafted) draft(client);
}

void Crowd::draft(Client& client) {
  const bool ahead = client.drafted > client.end;
  // The token behind the last one that can stand is the server's.
  const int last = client.lengths.answer - 1;
  const int round = std::min(client.gamma + (ahead ? 1 : 0), last - client.drafted);
  if (round <= 0) {
    if (client.sent == client.end) send(client);
    return;
  }
  if (client.drafted - client.end >= kMaxRoundsAhead * client.gamma) return;
  client.drafting = client.drafted + round;
  simulation_.after(load_.draft_step * round, [this, &client, chain = client.chain] {
    if (chain == client.chain) round_is_drafted(client);
  });
}

void Crowd::round_is_drafted(Client& client) {
  client.drafted = client.drafting;
  const bool awaits_verdict = client.sent > client.end;
  if (habit_ == DraftHabit::kSendsAhead || !awaits_verdict) send(client);
  const bool one_round_waits = habit_ == DraftHabit::kDraftsAhead && client.sent < client.drafted;
  if (habit_ != DraftHabit::kWaits && !one_round_waits) draft(client);
}

void Crowd::send(Client& client) {
  const CrowdRound round{.request = client.request,
                         .position = client.sent,
                         .count = client.drafted - client.sent,
                         .text_end = client.end};
  client.sent = client.drafted;
  const std::size_t bytes = kFrameBytes + static_cast<std::size_t>(round.count) * kNodeBytes;
  simulation_.after(load_.up.time_of(bytes), [this, round] { server_.take(round); });
}

CrowdFigures Crowd::figures() const {
  CrowdFigures figures = done_;
  for (const Client& client : clients_) {
    figures.tokens += client.delivered;
    figures.tokens_of.push_back(client.delivered);
    if (!client.answering) continue;
    if (!client.from) {
      figures.ttft_ms.push_back(to_ms(simulation_.now() - client.asked));
    } else if (const auto tpot = tpot_ms(client)) {
      figures.tpot_ms.push_back(*tpot);
    }
  }
  return figures;
}

}  // namespace outrider
