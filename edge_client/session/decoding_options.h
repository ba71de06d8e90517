// How an answer is decoded, as a session is told (decoding_session.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/sampling/sampling.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/speculation/speculator.h"

namespace outrider {

struct DecodingOptions {
  Strategy strategy = Strategy::kAr;
  int gamma = 4;          // drafted tokens of a round
  int branches = 1;       // sd, fsd: chains in a round, under its likeliest first tokens
  TreeOptions tree = {};  // sd: what a round is
  std::optional<bool> provisional = {};            // sd: as StrategyOptions says
  std::shared_ptr<AnswerMemory> tree_memory = {};  // of answers before; null: none
  // With the other of two verifiers; nothing: as with the one that the answer begins with.
  std::optional<SpeculationWay> other = {};
  int fan_out = kFanOut;  // mirror: next tokens considered at each position
  QueueOrder queue = QueueOrder::kPriority;
  Optimize optimize = Optimize::kLatency;  // mirror
  double uplink_budget = 0;  // mirror: bytes/s for what may turn out unused; 0: as the link carries
  // Said with the target's name when the first stream opens: "ON (draft x, γ=4)", or "OFF because"
  // and the reason. Empty: neither is said (later turns of a chat).
  std::string speculation;
  std::string tokenizer_hash;
  std::int32_t token_bound = 0;  // tokens a draft may send before Opened names the vocabulary
  SamplingParams sampling;
  std::uint64_t seed = 0;
  Position end_position = 0;  // prompt and answer; the target's context may end it sooner
  std::vector<TokenId> stop_ids;
  std::string replaced_session;  // of the turn before
  std::string session_key;       // of this answer: 32 hex digits that nobody can guess; empty: none
  // A reconnect may go on with a target of another arithmetic id; then the text may differ.
  bool accept_other_arithmetic = false;
  // Another verifier may go on with another model.
  bool accept_other_model = false;
  LearntPairs learnt = {};              // of earlier answers, by targets' fingerprints
  SessionObserver* observer = nullptr;  // beside the figures; null: none
  Duration reconnect_timeout = std::chrono::seconds(30);
  std::uint64_t jitter_seed = 0;
};

inline SpeculationWay speculation_way(const DecodingOptions& options) {
  return {.strategy = options.strategy,
          .rounds = {.gamma = options.gamma,
                     .branches = options.branches,
                     .fan_out = options.fan_out,
                     .queue = options.queue,
                     .optimize = options.optimize,
                     .tree = options.tree,
                     .memory = options.tree_memory,
                     .provisional = options.provisional}};
}

inline SpeculatorOptions speculator_options(const DecodingOptions& options) {
  const SpeculationWay first = speculation_way(options);
  return {.strategy = first.strategy,
          .rounds = first.rounds,
          .other = options.other,
          .uplink_budget = options.uplink_budget,
          .token_bound = options.token_bound,
          .end_position = options.end_position,
          .learnt = options.learnt};
}

}  // namespace outrider
