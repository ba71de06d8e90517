// loopback: the overhead of the machinery in two processes with a model that does no work. In each
// round a verdict leaves the server, the edge answers it with a node, and the next pass starts. The
// server itself measures that time (Verdict.timings: waited and queued).
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "edge_client/verifiers/remote.h"
#include "emulation/process/server_process.h"

namespace outrider {
namespace {

constexpr double kBarMs = 1.0;

struct LoopbackOptions {
  int rounds = 2000;
  int warm_up = 100;  // rounds that are not counted
};

// The null model's choice is practically random, so this guess is nearly always wrong. Right or
// wrong, no node lives after the verdict, so every round has to wait for the edge.
constexpr TokenId kGuess = 1;

Result<std::vector<double>> measure(const ServerProcess& server, int rounds) {
  EventQueue events;
  RemoteVerifier verifier({.server = server.address()});
  verifier.start(1, events.sink());
  Open open;
  open.tokenizer_hash = server.tokenizer_hash();
  open.prefix = {0};
  open.end_position = 2 * rounds + 4;  // at most two tokens a round
  verifier.send({0, 0, open});
  std::vector<double> gaps_ms;
  NodeId next_id = 1;
  while (true) {
    const VerifierEvent event = events.next();
    if (const auto* ended = std::get_if<StreamEnded>(&event)) {
      if (!ended->status.ok()) return ended->status;
      return gaps_ms;
    }
    const auto* verdict = std::get_if<Verdict>(&std::get<ServerMessage>(event));
    if (verdict == nullptr) continue;
    if (verdict->pass > 0 && gaps_ms.size() < static_cast<std::size_t>(rounds)) {
      gaps_ms.push_back(to_ms(verdict->timings.waited + verdict->timings.queued));
    }
    if (gaps_ms.size() == static_cast<std::size_t>(rounds)) verifier.send({0, 0, Cancel{}});
    const Position end = verdict->position + static_cast<Position>(verdict->tokens.size());
    verifier.send({end, 0, Grow{next_id++, end, {{kGuess, 0, 255}}}});
  }
}

Result<CheckOutcome> run_loopback(const LoopbackOptions& options) {
  const int rounds = options.warm_up + options.rounds;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                            ServerProcess::start({"--model", "null:"}));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<double> gaps_ms, measure(*server, rounds));
  gaps_ms.erase(gaps_ms.begin(), gaps_ms.begin() + options.warm_up);
  const Bar bar{"p50_ms", *median(gaps_ms), kBarMs, Bar::Side::kAtMost};
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"p50_ms", bar.value.value},
                     {"p99_ms", quantile(gaps_ms, 0.99)},
                     {"max_ms", quantile(gaps_ms, 1)},
                     {"rounds", gaps_ms.size()}};
  outcome.hold({&bar, 1});
  return outcome;
}

}  // namespace

void add_loopback_check(CheckList& checks) {
  auto options = std::make_shared<LoopbackOptions>();
  CLI::App* command = checks.add(
      "loopback", "Overhead from a verdict to the next pass: two processes, no model work",
      [options] { return run_loopback(*options); });
  command->add_option("--rounds", options->rounds, "Passes to measure")
      ->check(CLI::Range(1, 20'000));
}

}  // namespace outrider
