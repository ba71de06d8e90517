// How an answer is speculated: what to grow, what to select for sending, whom to wait for, and
// which pass policy the verifier follows. The machinery that all strategies share (rounds,
// requests, estimates, messages) is speculator.h's.
//
//   ar      the target decodes alone (pass policy eager, no nodes)
//   sd      plain speculative decoding: draft a round, send it whole, wait for its verdict
//   fsd     sd, and drafting ahead for the outcomes that the target's early exits name
//           (FSD, section 3)
//   sd with --tree: the round is a tree (tree_strategy.h)
//   mirror  drafting and sending ahead for every likely outcome; a controller decides how far
//           (docs/latency-law.md)
//   specedge, ssd, picospec  the ways of other systems (rivals.h, docs/rivals.md)
//
// Thread rule: pure; times are arguments. Owned by the speculator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/drafting/growth_policy.h"
#include "common/drafting/hypothesis_tree.h"
#include "common/drafting/round_planner.h"
#include "common/protocol/messages.h"
#include "edge_client/metrics/plan_change.h"
#include "edge_client/speculation/learnt_pair.h"
#include "edge_client/speculation/optimize.h"
#include "edge_client/speculation/sending/sending_rule.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

enum class Strategy : std::uint8_t { kAr, kSd, kFsd, kMirror, kSpecEdge, kSsd, kPicoSpec };

template <>
inline constexpr auto enum_names<Strategy> =
    std::to_array<EnumName<Strategy>>({{Strategy::kAr, "ar"},
                                       {Strategy::kSd, "sd"},
                                       {Strategy::kFsd, "fsd"},
                                       {Strategy::kMirror, "mirror"},
                                       {Strategy::kSpecEdge, "specedge"},
                                       {Strategy::kSsd, "ssd"},
                                       {Strategy::kPicoSpec, "picospec"}});

// Whether rounds end where they are no longer worth their rows. For the goal of cost mirror's are
// whole: it has no time per token to hold a row's price against.
constexpr bool ends_rounds_early(Strategy strategy, Optimize goal) {
  return strategy == Strategy::kMirror && goal != Optimize::kCost;
}

// Drafted tokens of a round where nobody says how many; the most, where rounds end early.
constexpr int default_draft_length(Strategy strategy, Optimize goal = Optimize::kLatency) {
  return ends_rounds_early(strategy, goal) ? 8 : 4;
}

// A verdict as a strategy learns from it.
struct VerdictReview {
  std::size_t tokens = 0;
  std::vector<TokenId> text = {};  // the tokens
  PassShape pass = {};
  std::size_t depth = 0;  // of the deepest node that its pass verified
  CacheLookup found = {};
  bool exits_looked = false;  // early exits looked at its pass
  TimePoint now = {};
};

VerdictReview review_of(const Verdict& verdict, std::size_t depth, const CacheLookup& found,
                        bool exits_looked, TimePoint now);

// What a strategy sees when it decides what leaves before a verdict.
struct SendingView {
  TimePoint now = {};
  TimePoint pass_origin = {};      // what leaves within T_q of this arrives before the pass ends
  std::size_t rows_in_flight = 0;  // nodes of the pass that runs
  std::size_t room = 0;            // nodes that the verifier takes beside those that live there
  double link_room = 0;            // bytes that may leave now
  bool draft_works = false;        // a draft step is out
};

// What may leave before a verdict.
struct AheadSelection {
  SendingLimits limits;
  ChainBounds round;  // of each
};

class SpeculationStrategy {
 public:
  virtual ~SpeculationStrategy() = default;

  // Which pass policy the verifier follows from now on.
  virtual Policy pass_policy() const = 0;

  // Whether anything is drafted at present.
  virtual bool speculates() const { return true; }

  // What a whole round is.
  virtual RoundShape round() const = 0;

  // How long a round is as a rule.
  virtual std::size_t usual_length() const { return round().length; }

  // Who says what a round is where it is a tree; null: round() does.
  virtual RoundPlanner* planner() { return nullptr; }

  // Whom to wait for: a verifier that has no round gets one when its branches are so long.
  virtual std::size_t wait_for() const { return round().length; }

  // What to grow for a verifier that waits, up to this round.
  virtual std::unique_ptr<GrowthPolicy> grow_round(const RoundShape& round) const {
    return std::make_unique<RoundPolicy>(round);
  }

  // What to grow while a verdict is awaited. Null: nothing.
  virtual std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& /*timings*/) const {
    return nullptr;
  }
  bool drafts_ahead(const Timings& timings) const { return grow_ahead(timings) != nullptr; }

  // What to select for sending while a verdict is awaited; nothing: it is kept for the verdict.
  virtual std::optional<AheadSelection> select_ahead(const SendingView& /*view*/,
                                                     const Timings& /*timings*/) const {
    return std::nullopt;
  }

  // A target answered; it may have early exits.
  virtual void on_target(bool /*has_exits*/) {}

  // Before the first verdict: what earlier answers have taught.
  virtual void begin_with(const LearntPair& /*learnt*/) {}
  // Into `learnt`: what this answer adds. False: nothing.
  virtual bool teach(LearntPair& /*learnt*/) const { return false; }

  // A verdict came, and the answer goes on. Returns what the strategy changed, if that is worth a
  // line in the log; PlanChange::token is left to the caller.
  virtual std::optional<PlanChange> on_verdict(const VerdictReview& /*review*/,
                                               const Timings& /*timings*/) {
    return std::nullopt;
  }
};

}  // namespace outrider
