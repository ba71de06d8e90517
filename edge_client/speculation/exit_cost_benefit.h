// Whether the target's early exits are worth what they cost, decided again at every verdict.
//
// Exits make every pass longer, and name outcomes whose rounds are then drafted in time. Their cost
// is measured by two passes without them, at the beginning of the answer and rarely again. Their
// benefit is the share of verdicts that they alone predicted, times what a hit saves. If that is
// less than the cost, they are switched off. They are tried again later, after twice as many tokens
// each time that they fail. They are not tried where almost every round is there in time without
// them: a trial takes as many passes as many answers have.
//
// Thread rule: pure. Owned by the controller. Units: seconds; tokens of the answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "edge_client/speculation/timings.h"

namespace outrider {

class ExitCostBenefit final {
 public:
  // Whether the target has exits. Without them nothing is decided, and none are wanted.
  void target_has_exits(bool has) { exist_ = has; }

  // A verdict came. unaided: the share of its round that would have been there without exits.
  void on_round(double unaided) { unaided_.add(unaided); }
  // A verdict of a pass that exits looked at. theirs: the share of its round that they alone made.
  void on_verdict(double theirs);

  // Decides again, `tokens` into the answer. hit_saves: what a hit saves, in seconds. Returns the
  // reason if the decision changed.
  std::string decide(const Timings& timings, double hit_saves, std::uint64_t tokens);
  // Switches them off at once: they are why speculation loses.
  void drop(std::uint64_t tokens);

  bool wanted() const { return exist_ && state_ == State::kOn; }
  // Seconds per pass; nothing until measured.
  std::optional<double> cost() const { return cost_; }
  // The share of verdicts that they alone predicted.
  double share() const { return theirs_.mean(); }

 private:
  enum class State : std::uint8_t {
    kOn,
    kProbe,  // off, to measure what they cost
    kOff,    // off, because they do not pay
  };

  std::string begin_probe(const Timings& timings, std::uint64_t tokens);
  std::string end_probe(const Timings& timings, double hit_saves, std::uint64_t tokens);
  std::string judge(const Timings& timings, double hit_saves, std::uint64_t tokens);
  std::string try_again(double hit_saves, std::uint64_t tokens);
  double expected_share() const;
  double could_win(double hit_saves) const;
  bool hopeless(double hit_saves) const;
  void measure(const Timings& timings);

  static constexpr double kKeep =
      0.97;  // of older verdicts' weight, per verdict: about thirty count
  // Exits go for a probe of their cost after this many tokens, and twice as many after each; they
  // come back at the latest after kProbeTokens, as an on_request verifier may run few passes.
  static constexpr std::uint64_t kEnterProbe = 256;
  static constexpr std::uint64_t kProbeTokens = 64;
  // Exits that did not pay come back, for a trial, after this many tokens, and twice as many after
  // each trial that fails. They go when what they save is less than what they cost.
  static constexpr std::uint64_t kEnterTrial = 64;

  bool exist_ = false;
  State state_ = State::kProbe;
  DecayedMean unaided_{kKeep};
  DecayedMean theirs_{kKeep};
  std::uint64_t verdicts_ = 0;  // since they are on
  std::optional<double> cost_;
  bool cost_is_old_ = false;

  std::uint64_t probe_at_ = 0;
  std::uint64_t probe_after_ = kEnterProbe;
  std::uint64_t plain_before_ = 0;  // passes without exits, as the probe began
  std::uint64_t give_up_at_ = kProbeTokens;
  std::uint64_t try_at_ = 0;
  std::uint64_t try_after_ = kEnterTrial;
};

}  // namespace outrider
