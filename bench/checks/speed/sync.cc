// sync: the time of a hit. The next round's nodes are at the server before the verdict; the check
// measures from the verdict to the next pass's start (the paper's T_r). Two processes run a model
// without work whose passes last some milliseconds, so that nodes can arrive during a pass. The
// server itself measures the time (Verdict.timings: waited and queued). For an edge that sends
// after the verdict, see the `loopback` check. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "edge_client/verifiers/remote.h"
#include "emulation/process/server_process.h"

namespace outrider {
namespace {

constexpr double kBarMs = 1.0;
constexpr std::size_t kFirst = 2;  // nodes before the first verdict
constexpr std::size_t kAhead =
    3;  // nodes sent during a pass: one is committed, two are the next round

struct SyncOptions {
  int tokens = 400;
  double pass_ms = 5;
};

Open make_open(const ServerProcess& server, int tokens, PassPolicy policy) {
  Open open;
  open.tokenizer_hash = server.tokenizer_hash();
  open.prefix = {0};
  open.end_position = tokens + 1;
  open.policy.pass_policy = policy;
  return open;
}

// The target's answer, by plain decoding.
Result<std::vector<TokenId>> decode(const ServerProcess& server, int tokens) {
  EventQueue events;
  RemoteVerifier verifier({.server = server.address()});
  verifier.start(1, events.sink());
  verifier.send({0, 0, make_open(server, tokens, PassPolicy::kEager)});
  std::vector<TokenId> answer;
  while (true) {
    const VerifierEvent event = events.next();
    if (const auto* ended = std::get_if<StreamEnded>(&event)) {
      if (!ended->status.ok()) return ended->status;
      return answer;
    }
    const auto* verdict = std::get_if<Verdict>(&std::get<ServerMessage>(event));
    if (verdict == nullptr) continue;
    answer.insert(answer.end(), verdict->tokens.begin(), verdict->tokens.end());
    verifier.send({1 + static_cast<Position>(answer.size()), 0, AckOnly{}});
  }
}

struct Gaps {
  std::vector<double> ms;
  std::size_t passes = 0;
  std::size_t tokens = 0;
};

// An edge that knows the answer and is always one round ahead.
class KnowingEdge final {
 public:
  KnowingEdge(const ServerProcess& server, const std::vector<TokenId>& right)
      : right_(right), verifier_({.server = server.address()}) {
    verifier_.start(1, events_.sink());
    const auto tokens = static_cast<int>(right.size());
    verifier_.send({0, 0, make_open(server, tokens, PassPolicy::kOnRequest)});
    send_ahead(kFirst);
  }

  Result<Gaps> run() {
    while (true) {
      const VerifierEvent event = events_.next();
      if (const auto* ended = std::get_if<StreamEnded>(&event)) {
        if (!ended->status.ok()) return ended->status;
        return gaps_;
      }
      const auto& message = std::get<ServerMessage>(event);
      if (std::holds_alternative<Started>(message)) send_ahead(kAhead);
      if (const auto* verdict = std::get_if<Verdict>(&message)) take(*verdict);
    }
  }

 private:
  void send_ahead(std::size_t count) {
    Grow grow{static_cast<NodeId>(sent_ + 1), 1, {}};
    for (; count > 0 && sent_ < right_.size(); --count, ++sent_) {
      grow.nodes.push_back({right_[sent_], static_cast<NodeId>(sent_ > 0 ? 1 : 0), 255});
    }
    if (!grow.nodes.empty()) verifier_.send({1 + committed_, 0, grow});
  }

  void take(const Verdict& verdict) {
    committed_ += static_cast<Position>(verdict.tokens.size());
    gaps_.tokens += verdict.tokens.size();
    if (gaps_.passes++ > 0)
      gaps_.ms.push_back(to_ms(verdict.timings.waited + verdict.timings.queued));
  }

  const std::vector<TokenId>& right_;
  EventQueue events_;
  RemoteVerifier verifier_;
  std::size_t sent_ = 0;
  Position committed_ = 0;
  Gaps gaps_;
};

Result<CheckOutcome> run_sync(const SyncOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                            ServerProcess::start({"--model", "null:", "--pace-pass-ms",
                                                  std::to_string(options.pass_ms)}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> right, decode(*server, options.tokens));
  KnowingEdge edge(*server, right);
  OUTRIDER_ASSIGN_OR_RETURN(Gaps gaps, edge.run());
  if (gaps.ms.empty()) return internal_error("no pass came after the first");
  // Fewer tokens per pass would mean that nodes came too late to be hits.
  const double tau = static_cast<double>(gaps.tokens) / static_cast<double>(gaps.passes);
  const Bar bar{"p50_ms", *median(gaps.ms), kBarMs, Bar::Side::kAtMost};
  CheckOutcome outcome;
  outcome.passed = tau >= 2 && gaps.tokens == right.size();
  outcome.figures = {{"p50_ms", bar.value.value},
                     {"p99_ms", quantile(gaps.ms, 0.99)},
                     {"max_ms", quantile(gaps.ms, 1)},
                     {"hits", gaps.ms.size()},
                     {"tokens_per_pass", tau}};
  outcome.hold({&bar, 1});
  return outcome;
}

}  // namespace

void add_sync_check(CheckList& checks) {
  auto options = std::make_shared<SyncOptions>();
  CLI::App* command = checks.add(
      "sync", "On a hit, the time from the verdict to the next pass's start; no model work",
      [options] { return run_sync(*options); });
  command->add_option("--tokens", options->tokens, "Tokens to decode")
      ->check(CLI::Range(20, 500));  // within the server's run-ahead
  command->add_option("--pass-ms", options->pass_ms, "How long a pass lasts")
      ->check(CLI::Range(1.0, 1000.0));
}

}  // namespace outrider
