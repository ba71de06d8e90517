// Chooses, after every verdict, how to speculate: how long a round is, whether and how long the
// verifier waits for one after a miss, whether to ask for early exits, and whether to speculate at
// all (docs/latency-law.md).
//
// Let theta be the current time per token. T_p is the time of a draft step, T_q(n) that of a pass
// over n rows, 2 T_c the round trip (FSD, table 3). Each decision compares a gain with a cost:
//   - node k of a round is sent while  c_k * theta > T_q(k + 1) - T_q(k), where c_k is the chance
//   that the
//     first k tokens are accepted, by the draft's own confidence in them;
//   - after a miss the verifier waits for the j drafted tokens with the largest
//       (a_1 + .. + a_j) * theta - (2 T_c + j T_p) - (T_q(j + 1) - T_q(1)),
//     where a_k is how often the first k tokens of a round are accepted. If no j gives more than 0,
//     it waits for none and continues alone, as cloud decoding does, while the edge drafts further
//     ahead;
//   - where draft and target take turns on the same cores, the first tokens are the target's alone.
//     Then each round is waited for, and node k of it is drafted while
//       c_k * theta > T_p + T_q(k + 1) - T_q(k);
//   - exits are switched off where they cost more than they save (exit_cost_benefit.h);
//   - the draft's second choices are left out where they almost never bring a round;
//   - speculation is switched off when a token takes longer with it than without draft and exits.
//   It is
//     tried again later, after twice as many tokens each time that it fails.
//
// Thread rule: pure; time is an argument. Owned by the strategy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/decoding/drafting/drafter.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/speculation/exit_cost_benefit.h"
#include "edge_client/speculation/pair_profile.h"
#include "edge_client/speculation/round_worth.h"
#include "edge_client/speculation/strategy.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

// How to speculate until the next verdict.
struct SpeculationPlan {
  bool speculates = true;
  int gamma = 4;            // drafted tokens that are worth their rows, on average
  double least_chance = 0;  // a token is sent if its round is accepted up to it with this chance
  int wait_for = 4;         // after a miss; 0: the verifier does not wait
  int fan_out = kFanOut;    // next tokens considered at each position
  Policy policy;
  std::string reason;  // of the last change, for the user

  // Whether nothing has changed that is logged.
  bool same_course(const SpeculationPlan& other) const {
    return speculates == other.speculates && gamma == other.gamma && wait_for == other.wait_for &&
           fan_out == other.fan_out && policy.wants_exits == other.policy.wants_exits &&
           policy.patience == other.policy.patience;  // which changes by half or more
  }
};

class Controller final {
 public:
  // max_gamma: the longest round that may be drafted. max_fan_out: the most next tokens that may be
  // considered. Both are at least 1. takes_turns: as SpeculationOptions.
  Controller(Optimize goal, int max_gamma, int max_fan_out = kFanOut, bool takes_turns = false);

  void target_has_exits(bool has) { exits_.target_has_exits(has); }

  // Takes the look-up of the nodes drafted ahead for a verdict; call before on_verdict().
  // exits_spoke: early exits looked at its pass.
  void on_lookup(const CacheLookup& found, bool exits_spoke, const Timings& timings);

  // The depth of the edge's nodes in a verdict's pass, and the number of them that stood. Tokens
  // that a server's own nodes brought are not among them.
  struct Drafted {
    std::size_t depth = 0;
    std::size_t stood = 0;
  };
  // A verdict came, of this many tokens.
  void on_verdict(std::size_t tokens, const Drafted& drafted, TimePoint now);

  // Before the first verdict: starts where answers with the same target, draft and device ended.
  void warm_start(const PairProfile& profile);
  // Adds what this answer has profile. False: too little was seen.
  bool save_to(PairProfile& profile) const;

  // How to speculate, by all that is known.
  const SpeculationPlan& plan(const Timings& timings);
  const SpeculationPlan& current() const { return plan_; }

  // The length of a round if the draft is sure of every token.
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

  // Each returns the reason if it changed something.
  std::string switch_on_or_off(const Timings& timings);
  std::string begin(const Timings& timings);
  std::string switch_off(std::string reason);
  void plan_rounds(const RoundWorth& worth);
  std::string drop_exits(double with, double without);
  std::string choose_fan_out();

  bool exits_in_time(const Timings& timings) const;
  void set_policy(const Timings& timings);
  const Pace& pace() const { return plan_.speculates ? with_ : without_; }

  const Optimize goal_;
  const int max_gamma_;
  const int max_fan_out_;
  const bool takes_turns_;
  AcceptanceByDepth acceptance_;
  ExitCostBenefit exits_;
  DecayedMean runners_up_;        // share of verdicts after which a second choice brought the round
  std::uint64_t fan_out_at_ = 0;  // the token at which they are tried again
  SpeculationPlan plan_;
  Pace with_;     // since speculation is on
  Pace without_;  // as of the last time it was off
  std::optional<TimePoint> last_verdict_;
  std::uint64_t tokens_ = 0;
  bool begun_ = false;          // it is decided whether the answer begins with speculation
  std::uint64_t probe_at_ = 0;  // while off: the token at which it is tried again
  std::uint64_t probe_after_;   // tokens until the next trial, if this one fails
};

}  // namespace outrider
