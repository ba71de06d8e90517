// Speculation strategies of other systems between an edge and a server, each at its best settings,
// for comparison with ours on the same models, links and texts (bench/lab/rivals.md). They follow
// their papers. Tokens are verified as with every strategy: a token stands if the target chooses it
// too.
//
//   specedge  SpecEdge (arXiv 2505.17052): while a verdict is awaited, the next round is drafted
//             from the single best guess of the token after it
//   ssd       SSD / Saguaro (arXiv 2603.03251): rounds for many outcomes of the verdict, with a
//             fan-out that falls geometrically from position to position
//   picospec  PicoSpec (arXiv 2603.19133): the single best next chain leaves before the verdict
//
// Thread rule: pure; owned by the speculator. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "edge_client/speculation/strategy.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

// Grows the likeliest chain only: it assumes that the nodes in flight are accepted, and continues
// with the draft's best guess. ahead: rows beyond those in flight.
class NextGuessPolicy final : public GrowthPolicy {
 public:
  explicit NextGuessPolicy(int ahead) : ahead_(ahead) {}

  int fan_out() const override { return 1; }
  bool wants_root() const override { return true; }
  double worth(const GrowthView& view, NodeIndex node) const override;

 private:
  const int ahead_;
};

// SpecEdge: a round waits for its verdict. Meanwhile the edge assumes that its whole round is
// accepted and that its own best guess follows, and drafts the next round from there. If the
// verdict agrees, the round is ready; otherwise it is drafted again.
class SpecEdgeStrategy final : public SpeculationStrategy {
 public:
  explicit SpecEdgeStrategy(const RoundShape& round) : round_(round) {}

  Policy pass_policy() const override { return {.pass_policy = PassPolicy::kOnRequest}; }
  RoundShape round() const override { return round_; }
  std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& timings) const override;

 private:
  const RoundShape round_;
};

// How many next tokens SSD expects after k accepted ones, for k from 0 to gamma (theorem 12):
//
//   F_k = F_0 a^(k / (1 + r)) for k < gamma,   F_gamma = F_0 a^(gamma / (1 + r)) (1 - a)^(-1 / (1 +
//   r))
//
// with F_0 such that they sum up to the budget; whole numbers, the largest rests first.
// acceptance: a, the chance that a drafted token stands; r is 1.
std::vector<int> geometric_fan_out(double acceptance, int gamma, int budget);

// Grows a round for every outcome (k accepted tokens, next token) of the fan-out, all of them in
// step, like SSD's single batch.
class OutcomeFanOutPolicy final : public GrowthPolicy {
 public:
  // fan_out: [k]
  OutcomeFanOutPolicy(int gamma, std::vector<int> fan_out);

  int fan_out() const override { return widest_; }
  bool wants_root() const override { return true; }
  double worth(const GrowthView& view, NodeIndex node) const override;

 private:
  bool expects(const GrowthView& view, NodeIndex outcome) const;

  const int gamma_;
  const std::vector<int> fan_out_;
  const int widest_;
};

// SSD (Saguaro): a round waits for its verdict. Meanwhile the edge drafts the next round for as
// many outcomes as its budget allows. On a miss it drafts the round then, like plain speculation
// (the paper's slow fallback, which is its best for a single answer). SSD's sampling, which biases
// the draft towards what is drafted, has no counterpart under the law of choice.
class SsdStrategy final : public SpeculationStrategy {
 public:
  explicit SsdStrategy(const RoundShape& round);

  Policy pass_policy() const override { return {.pass_policy = PassPolicy::kOnRequest}; }
  RoundShape round() const override { return round_; }
  std::unique_ptr<GrowthPolicy> grow_round(const RoundShape& round) const override;
  std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& timings) const override;
  std::optional<PlanChange> on_verdict(const VerdictReview& review,
                                       const Timings& timings) override;

 private:
  std::vector<int> fan_out() const;

  const RoundShape round_;
  DecayedMean acceptance_;  // of a drafted token if its predecessors were accepted
};

// PicoSpec: the edge never stops drafting. It assumes that what is in flight is accepted, and sends
// each further round before the verdict; the server verifies at most one round per pass. After a
// rejection everything sent is void, and the next round pays the round trip.
class PicoSpecStrategy final : public SpeculationStrategy {
 public:
  explicit PicoSpecStrategy(const RoundShape& round) : round_(round) {}

  Policy pass_policy() const override;
  RoundShape round() const override { return round_; }
  std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& timings) const override;
  std::optional<AheadSelection> select_ahead(const SendingView& view,
                                             const Timings& timings) const override;

 private:
  // Drafted tokens that fill the link and the running pass.
  std::size_t rows_ahead(const Timings& timings) const;

  const RoundShape round_;
};

// All rivals; valid as long as the program runs.
std::span<const GuestStrategy> rival_strategies();
// Null if there is none of this name.
const GuestStrategy* find_rival(std::string_view name);

}  // namespace outrider
