// A strategy decides how to speculate: what to grow, what to select for sending, how long the
// verifier waits, and which pass policy it follows. What all strategies share (rounds, requests,
// estimates, messages) is the speculator's (speculator.h).
//
//   ar      the target decodes alone (pass policy eager, no nodes)
//   sd      plain speculative decoding: draft a round, send it whole, wait for its verdict
//   sd with --tree: the round is a tree
//   fsd     sd, and drafting ahead for the outcomes that the target's early exits name
//           (FSD, section 3)
//   mirror  drafting and sending ahead for every likely outcome; a controller decides how far
//           (docs/latency-law.md)
//
// A program may bring guests along: strategies of other systems, to compare ours with (bench/lab).
//
// Thread rule: pure; time is an argument. Owned by the speculator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/decoding/drafting/growth_policy.h"
#include "common/decoding/drafting/hypothesis_tree.h"
#include "common/decoding/drafting/own_or_guest.h"
#include "common/decoding/drafting/round_planner.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/speculation/pair_profile.h"
#include "edge_client/speculation/sending.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

enum class Strategy : std::uint8_t { kAr, kSd, kFsd, kMirror, kGuest };

template <>
inline constexpr auto enum_names<Strategy> =
    std::to_array<EnumName<Strategy>>({{Strategy::kAr, "ar"},
                                       {Strategy::kSd, "sd"},
                                       {Strategy::kFsd, "fsd"},
                                       {Strategy::kMirror, "mirror"}});

// The user's objective (--optimize).
enum class Optimize : std::uint8_t {
  kLatency,   // the least time per token
  kCost,      // the fewest target passes per token: every pass waits for a whole round
  kBalanced,  // a pass costs half of its own time once more
};

template <>
inline constexpr auto enum_names<Optimize> =
    std::to_array<EnumName<Optimize>>({{Optimize::kLatency, "latency"},
                                       {Optimize::kCost, "cost"},
                                       {Optimize::kBalanced, "balanced"}});

// Whether rounds end where they are no longer worth their rows. With --optimize cost, mirror's
// rounds are whole: there is no time per token to weigh a row's price against.
constexpr bool ends_rounds_early(Strategy strategy, Optimize goal) {
  return strategy == Strategy::kMirror && goal != Optimize::kCost;
}

// The default number of drafted tokens in a round; the largest number, where rounds end early.
constexpr int default_draft_length(Strategy strategy, Optimize goal = Optimize::kLatency) {
  return ends_rounds_early(strategy, goal) ? 8 : 4;
}

// The facts that a strategy learns from a verdict.
struct VerdictReview {
  std::size_t tokens = 0;
  std::vector<TokenId> text = {};  // the tokens
  PassShape pass = {};
  std::size_t depth = 0;  // of the deepest of our nodes that its pass verified
  std::size_t stood = 0;  // of our nodes, one below the other; a server's own are not counted
  CacheLookup found = {};
  bool exits_looked = false;  // early exits looked at its pass
  TimePoint now = {};
};

// The view of a strategy when it decides which rounds leave before a verdict.
struct SendingView {
  TimePoint now = {};
  TimePoint pass_origin = {};      // what leaves within T_q of this arrives before the pass ends
  std::size_t rows_in_flight = 0;  // nodes of the pass that runs
  std::size_t room = 0;            // nodes that the verifier takes beside those that live there
  double link_room = 0;            // bytes that may leave now
  bool draft_works = false;        // a draft step is out
};

// The rounds that may be sent before a verdict.
struct AheadSelection {
  SendingLimits limits;
  ChainBounds round;  // of each
};

class SpeculationStrategy {
 public:
  virtual ~SpeculationStrategy() = default;

  // The pass policy that the verifier follows from now on.
  virtual Policy pass_policy() const = 0;

  // Whether anything is drafted now.
  virtual bool speculates() const { return true; }

  // Draft and target compute on the same cores: nothing is drafted before the first verdict, so
  // that the target reads the prompt alone.
  virtual bool takes_turns() const { return false; }

  // The shape of a whole round.
  virtual RoundShape round() const = 0;

  // The usual length of a round.
  virtual std::size_t usual_length() const { return round().length; }

  // The planner of rounds that are trees; null: round() says what a round is.
  virtual RoundPlanner* planner() { return nullptr; }

  // A verifier that has no round gets one as soon as its branches are this long.
  virtual std::size_t wait_for() const { return round().length; }

  // The growth for a verifier that waits, up to this round.
  virtual std::unique_ptr<GrowthPolicy> grow_round(const RoundShape& round) const {
    return std::make_unique<RoundPolicy>(round);
  }

  // The growth while a verdict is awaited. Null means none.
  virtual std::unique_ptr<GrowthPolicy> grow_ahead(const Timings& /*timings*/) const {
    return nullptr;
  }
  bool drafts_ahead(const Timings& timings) const { return grow_ahead(timings) != nullptr; }

  // The rounds to send while a verdict is awaited; nothing: rounds are kept until the verdict.
  virtual std::optional<AheadSelection> select_ahead(const SendingView& /*view*/,
                                                     const Timings& /*timings*/) const {
    return std::nullopt;
  }

  // A target answered; it may have early exits.
  virtual void on_target(bool /*has_exits*/) {}

  // Before the first verdict: starts from what was learnt from earlier answers.
  virtual void warm_start(const PairProfile& /*profile*/) {}
  // Adds what this answer has profile. False: nothing.
  virtual bool save_to(PairProfile& /*profile*/) const { return false; }

  // A verdict came, and the answer goes on. Returns what the strategy changed, if it is to be
  // logged; the caller fills in PlanChange::token.
  virtual std::optional<PlanChange> on_verdict(const VerdictReview& /*review*/,
                                               const Timings& /*timings*/) {
    return std::nullopt;
  }
};

struct SpeculationOptions;  // speculation_options.h

struct GuestStrategy {
  const char* name;
  std::function<std::unique_ptr<SpeculationStrategy>(const SpeculationOptions& options)> make;
};

using StrategyChoice = OwnOrGuest<Strategy, GuestStrategy>;

}  // namespace outrider
