// Chooses, after every verdict, how to speculate: how long a round is, whether to let the verifier
// wait for one after a miss and how long, whether to ask for exits, and whether to speculate at all
// (docs/latency-law.md).
//
// With theta the present time per token, everything is a question of what a token is worth:
//   - node k of a round goes along while  c_k * theta > T_q(k + 1) - T_q(k),
//     c_k being the chance that its first k tokens stand, by the draft's own confidence in them;
//   - after a miss the verifier waits for j drafted tokens if that wins most of
//       (a_1 + .. + a_j) * theta - (2 T_c + j T_p) - (T_q(j + 1) - T_q(1)),
//     a_k being how often the first k tokens of a round stand, and for none if that is less than 0:
//     then it goes on alone, as cloud decoding does, while the edge drafts further ahead;
//   - exits go where they cost more than the verdicts that they alone foresee win
//     (exit_cost_benefit.h);
//   - the draft's runners-up go where they almost never bring a round;
//   - when a token takes longer than it does without draft and exits, speculation goes off; after a
//     while it is tried again, after each failure twice as long a while.
//
// Thread rule: pure; time is an argument. Owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/drafting/drafter.h"
#include "common/protocol/messages.h"
#include "edge_client/speculation/acceptance_by_depth.h"
#include "edge_client/speculation/decayed_mean.h"
#include "edge_client/speculation/exit_cost_benefit.h"
#include "edge_client/speculation/learnt_pair.h"
#include "edge_client/speculation/optimize.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

// How to go on.
struct SpeculationPlan {
  bool speculates = true;
  int gamma = 4;            // drafted tokens that are worth their rows on average
  double least_chance = 0;  // with which all of a round must stand for its last token to go along
  int wait_for = 4;         // after a miss; 0: the verifier does not wait
  int fan_out = kFanOut;    // next tokens considered at each position
  Policy policy;
  std::string reason;  // for the reader; of the last change

  // What a change of is worth a word.
  bool same_course(const SpeculationPlan& other) const {
    return speculates == other.speculates && gamma == other.gamma && wait_for == other.wait_for &&
           fan_out == other.fan_out && policy.wants_exits == other.policy.wants_exits &&
           policy.patience == other.policy.patience;  // which moves by half at least
  }
};

class Controller final {
 public:
  // max_gamma: the longest round that may be drafted, max_fan_out: the most next tokens that may
  // be considered; both >= 1.
  Controller(Optimize goal, int max_gamma, int max_fan_out = kFanOut);

  void target_has_exits(bool has) { exits_.target_has_exits(has); }

  // What was drafted ahead for a verdict, before on_verdict(). exits_spoke: they looked at
  // its pass.
  void on_lookup(const CacheLookup& found, bool exits_spoke, const Timings& timings);

  // A verdict came: of how many tokens, along a chain of how many nodes.
  void on_verdict(std::size_t tokens, std::size_t chain, TimePoint now);

  // Before the first verdict: begins where answers with the same target, draft and device ended.
  void begin_with(const LearntPair& learnt);
  // Into `learnt`: what this answer adds to it. False: too little was seen to say anything.
  bool teach(LearntPair& learnt) const;

  // How to go on, by what is known.
  const SpeculationPlan& plan(const Timings& timings);
  const SpeculationPlan& current() const { return plan_; }

  // Drafted tokens of a round of which the draft is sure.
  int longest_round() const { return max_gamma_; }

  // The recent time per token; 0 while unknown.
  Duration per_token() const;

 private:
  // Decayed sums of time and tokens.
  struct Pace {
    double seconds = 0;
    double tokens = 0;
    double weight = 0;  // of the verdicts
    std::uint64_t verdicts = 0;
    std::optional<double> per_token() const;
  };

  // Each returns why, if it changed something.
  std::string switch_on_or_off(const Timings& timings);
  std::string begin(const Timings& timings);
  std::string drop_exits(double with, double without);
  std::string choose_fan_out();

  bool exits_in_time(const Timings& timings) const;
  void set_policy(const Timings& timings);
  const Pace& pace() const { return plan_.speculates ? with_ : without_; }

  const Optimize goal_;
  const int max_gamma_;
  const int max_fan_out_;
  AcceptanceByDepth acceptance_;
  ExitCostBenefit exits_;
  DecayedMean runners_up_;        // the share of verdicts whose round hung under one
  std::uint64_t fan_out_at_ = 0;  // tokens; while they are left out
  SpeculationPlan plan_;
  Pace with_;     // since speculation is on
  Pace without_;  // as of the last time it was off
  std::optional<TimePoint> last_verdict_;
  std::uint64_t tokens_ = 0;
  bool begun_ = false;          // the numbers had their word on how to begin
  std::uint64_t probe_at_ = 0;  // tokens; while off
  std::uint64_t probe_after_;   // tokens until the next probe
};

}  // namespace outrider
