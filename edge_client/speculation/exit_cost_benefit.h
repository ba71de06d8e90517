// Whether the target's early exits are worth what they cost, from verdict to verdict.
//
// Exits make every pass longer, and name outcomes whose rounds are then drafted in time. What they
// cost is seen from two passes without them, at the answer's begin and rarely again. What they
// bring is the share of verdicts that they alone foresaw, times what a hit saves. Where that is
// less, they go; after a while they are tried again, after each failure twice as long a while. They
// are not tried where almost every round comes in time without them: a trial takes as many passes
// as many an answer has.
//
// Thread rule: pure. Owned by the controller. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "edge_client/speculation/decayed_mean.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

class ExitCostBenefit final {
 public:
  // The target has exits; without this there is nothing to decide, and none are wanted.
  void target_has_exits(bool has) { exist_ = has; }

  // A verdict came; how far its round would have been there without exits, 0 .. 1.
  void on_round(double unaided) { unaided_.add(unaided); }
  // A verdict of a pass that exits looked at: how far its round was theirs alone, 0 .. 1.
  void on_verdict(double theirs);

  // Looks again, `tokens` of the answer on. hit_saves: seconds. Returns why, if it changed its
  // mind.
  std::string decide(const Timings& timings, double hit_saves, std::uint64_t tokens);
  // Without them at once: they are what makes speculation lose.
  void drop(std::uint64_t tokens);

  bool wanted() const { return exist_ && state_ == State::kOn; }
  // Seconds per pass; nothing until it was seen.
  std::optional<double> cost() const { return cost_; }
  // The share of verdicts that they alone foresaw.
  double share() const { return theirs_.mean(); }

 private:
  enum class State : std::uint8_t {
    kOn,
    kProbe,  // off, to see what they cost
    kOff,    // off, as they do not pay
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
