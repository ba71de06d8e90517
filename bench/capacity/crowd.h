// Many light clients of one server, under a virtual clock: each asks, drafts by a device's pace,
// waits for verdicts over its link, reads, thinks, asks again. No models: what is right is drawn
// (load.h). So ten thousand of them take little real time.
//
//   Crowd crowd(simulation, load, server, habit, gamma);   // before the server's first event
//   crowd.run();
//   crowd.figures();
//
// A drafting client sends rounds of gamma tokens. A round that is drafted before the verdict on the
// one before has one more: the guess of the token that the verdict will add.
//
// Thread rule: one thread. Ownership: simulation and server outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "bench/capacity/load.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "sim/simulation.h"

namespace outrider {

// Drafted tokens of an answer, as they arrive at the server.
struct CrowdRound {
  RequestId request;
  int position = 0;  // of the first
  int count = 0;     // 0: asks for the next token alone
  int text_end = 0;  // tokens that the client had: the first follows them, or a token sent before
};

// The counts of a server over the whole run.
struct CrowdServerCounts {
  std::uint64_t passes = 0;
  std::uint64_t rows = 0;
  std::uint64_t rounds = 0;  // parts of passes that decided tokens
  // Drafted tokens that stood, by who drafted them; of the shipped scheduler.
  std::uint64_t from_clients = 0;
  std::uint64_t from_server = 0;
};

// A server as clients see it. It draws what stands by the same load.
class CrowdServer {
 public:
  virtual ~CrowdServer() = default;

  // The request is there; its first verdict has one token.
  virtual void open(const RequestId& request) = 0;
  virtual void take(const CrowdRound& round) = 0;
  virtual CrowdServerCounts counts() const = 0;
  // An error if the run is worth nothing: a request was refused, a pass was beyond the curve.
  virtual Status status() const = 0;

  // So many more tokens of the client's answer leave the server now.
  std::function<void(std::size_t client, int tokens)> on_tokens;
};

// The way in which a client gets its next tokens.
enum class DraftHabit : std::uint8_t {
  kNone,         // the server goes on by itself
  kWaits,        // drafts after a verdict
  kDraftsAhead,  // drafts on as if its round stood entirely; sends after the verdict
  kSendsAhead,   // the same, and sends before the verdict
};

// Times of answers within the measured time, in ms. One that began before it, or was not complete
// after it, counts by its tokens between, if these are enough to say how fast it was. If they were
// too few all that time, by the least that it can become.
struct CrowdFigures {
  std::vector<double> tpot_ms = {};           // per token after the first verdict
  std::vector<double> ttft_ms = {};           // from the request to the first token
  std::uint64_t tokens = 0;                   // delivered
  std::vector<std::uint64_t> tokens_of = {};  // of each client
};

class Crowd final {
 public:
  Crowd(Simulation& simulation, const ClientLoad& load, CrowdServer& server, DraftHabit habit,
        int gamma);

  // Stops early if the server's status is an error.
  void run();
  CrowdFigures figures() const;

 private:
  struct Client {
    RequestId request;
    RequestLengths lengths;
    TimePoint due;    // by the arrivals; kPoisson
    TimePoint asked;  // when the request left
    bool answering = false;
    std::optional<TimePoint> from;  // the first verdict, or the beginning of the measured time
    TimePoint last;                 // the last verdict
    int tokens = 0;                 // after `from`
    int end = 0;                    // tokens that are here
    int sent = 0;                   // end of the drafted tokens that were sent
    int drafted = 0;                // end of those that are drafted
    int gamma = 0;                  // tokens of its rounds
    std::uint64_t delivered = 0;    // tokens, within the measured time
    int drafting = 0;               // end of the round that is being drafted; `drafted`: none is
    std::uint64_t chain = 0;        // rises when drafted tokens are dropped
  };

  void ask_next(Client& client);
  void ask(Client& client);
  void receive(Client& client, int tokens);
  void finish(Client& client);
  void go_on(Client& client, int last);
  void draft(Client& client);
  void round_is_drafted(Client& client);
  void send(Client& client);
  std::optional<double> tpot_ms(const Client& client) const;

  Simulation& simulation_;
  const ClientLoad& load_;
  CrowdServer& server_;
  const DraftHabit habit_;
  const TimePoint measured_from_;
  std::vector<Client> clients_;
  CrowdFigures done_;  // of what is complete
};

}  // namespace outrider
