// Speculation of one answer: what the loop "commit, grow, select, send"
// (session/decoding_session.cc) grows, selects and sends. Asks its strategy, drives the drafter,
// and keeps what every strategy needs to know of the stream: whether the verifier waits for a
// round, the times of passes, draft steps and the link, and the room on the uplink.
//
//   (on_stream_opening on_opened (on_pass_started on_exit_report* commit on_answer_continues?)*
//     on_stream_closed)*
//   check_draft, and for each Purpose wants, grow, select: after each event; on_draft_step when one
//   is done
//
// When the draft cannot go on, the speculator says so once and continues as Strategy::kAr does.
//
// Thread rule: pure, time is an argument; one thread. Ownership: drafter and observers outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/drafting/drafter.h"
#include "common/decoding/exits/online_calibration.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/speculation/pair_profile.h"
#include "edge_client/speculation/pass_tracker.h"
#include "edge_client/speculation/sending.h"
#include "edge_client/speculation/speculation_actions.h"
#include "edge_client/speculation/strategies.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

struct SpeculatorOptions {
  // With the verifier that the answer begins with.
  SpeculationOptions first = {.strategy = Strategy::kAr};
  // With the other of two verifiers; nothing: as with the first.
  std::optional<SpeculationOptions> other = {};
  std::shared_ptr<AnswerMemory> memory = {};  // of earlier answers; null: none
  std::int32_t token_bound = 0;  // tokens that may be sent before Opened names the vocabulary
  Position end_position = 0;     // of prompt and answer; the target's context may end it sooner
  PairProfiles profiles = {};    // by fingerprint of the target, of this draft on this device
};

// How much of a round is useful, by the end of the answer and by what the target takes.
struct RoundBounds {
  Position end_position = 0;     // of prompt and answer
  std::int32_t token_bound = 0;  // tokens that may be sent before Opened names the vocabulary
  Limits limits = {};            // the protocol's defaults until Opened names the target's

  // Positions that drafted tokens can fill when the text ends at `end`: a verdict ends with one
  // more token.
  Position tokens_to_end(Position end) const { return end_position - end - 1; }

  // The depth of the deepest node that is useful to the next pass.
  Position useful_depth(Position end) const {
    return std::min({tokens_to_end(end), static_cast<Position>(limits.max_rows) - 1,
                     static_cast<Position>(limits.max_nodes)});
  }

  RoundShape useful(RoundShape round, Position end) const {
    const auto depth = static_cast<std::size_t>(std::max<Position>(0, useful_depth(end)));
    round.length = std::min(round.length, depth);
    return round;
  }

  PlanLimits plan_limits(Position end) const {
    return {.max_nodes = static_cast<std::size_t>(std::min(limits.max_nodes, limits.max_rows - 1)),
            .max_depth = std::max<Position>(0, useful_depth(end)),
            .token_bound = vocabulary()};
  }

  // Tokens below this may be sent.
  std::int32_t vocabulary() const {
    return limits.vocab_size <= 0 ? token_bound : std::min(token_bound, limits.vocab_size);
  }
};

// The one of two verifiers that the answer does not use at the moment: its strategy, its times and
// what its exits are worth. A server and this device differ in all three.
class OtherVerifier final {
 public:
  // The answer goes on with this one; what belongs to the one in use is kept here instead. drafts:
  // false if the draft cannot go on.
  void exchange(std::unique_ptr<SpeculationStrategy>& strategy, Timings& timings,
                OnlineCalibration& exits, const SpeculatorOptions& options, bool drafts);

  const SpeculationStrategy& strategy() const { return *strategy_; }
  const Timings& timings() const { return timings_; }
  const OnlineCalibration& exits() const { return exits_; }

 private:
  std::unique_ptr<SpeculationStrategy> strategy_;  // null: this verifier was never used
  Timings timings_;
  OnlineCalibration exits_;
};

class Speculator final {
 public:
  Speculator(const SpeculatorOptions& options, Drafter& drafter, const ObserverList& observers);

  // The pass policy that the verifier follows, or will when it has heard of it.
  const Policy& policy() const { return policy_; }
  Duration round_trip() const { return timings_.round_trip(); }
  // Why drafting ended before the answer did; nothing if it did not.
  const std::optional<std::string>& ended() const { return ended_; }
  // The draft model returned an error: later answers cannot use it either.
  bool draft_failed() const { return draft_failed_; }
  // Why the answer began without speculation; nothing if it began with it.
  const std::optional<std::string>& begins_without() const { return begins_without_; }
  // The profile learnt from this answer and earlier ones of the verifier with which this answer
  // began; nothing if too little was seen.
  std::optional<PairProfile> profile() const;
  // The fingerprint of that verifier's target; empty before the first Opened.
  const std::string& profiled_target() const { return profiled_target_; }

  // --- events; `out` takes the actions that they ask for, in order ---

  // The stream is over, and the next one goes to the other of two verifiers.
  void on_other_verifier(TimePoint now);
  // A stream opens; Open carries policy(). The drafter was restarted with the committed text.
  void on_stream_opening(SpeculationActions& out);
  // The stream was lost, or the answer is decided.
  void on_stream_closed() { stream_open_ = false; }
  // took: since Open was sent. end_position: of prompt and answer, as far as this target allows.
  void on_opened(const Opened& opened, Duration took, Position end_position,
                 SpeculationActions& out);
  void on_pass_started(const Started& started, TimePoint now);
  // False if nothing is drafted ahead; then the advice is not taken.
  bool on_exit_report(ExitAdvice advice);
  void on_draft_step(const Result<DraftStepDone>& result, TimePoint now, SpeculationActions& out);

  struct Committed {
    std::optional<Duration> request_round_trip;  // of the request for the pass
    std::size_t sent_unused = 0;                 // nodes that died, were sent and never were a row
  };
  // Commits a verdict that has passed every check. round: what its pass verified.
  Committed commit(const Verdict& verdict, const VerifiedRound& round, TimePoint now,
                   SpeculationActions& out);
  // The answer goes on after that verdict.
  void on_answer_continues(TimePoint now, SpeculationActions& out);

  // --- the verbs of the loop, each for one purpose ---

  enum class Purpose : std::uint8_t {
    kNextPass,  // the round of the next pass; the verifier waits for it
    kAhead,     // rounds for possible verdicts of the pass that runs
  };
  struct Growth {
    std::optional<DraftStep> step = {};  // for the draft model
    bool ready = true;                   // to select: nothing of the round has to be drafted first
    RoundPlan plan = {};                 // of a round that is a tree
  };

  // Stops drafting if the draft cannot go on.
  void check_draft(TimePoint now, SpeculationActions& out);
  bool wants(Purpose purpose) const;
  // The growth to draft now.
  Growth grow(Purpose purpose);
  // The nodes to send now; nothing if they are kept. A Grow without nodes asks the verifier for a
  // pass.
  std::optional<Grow> select(Purpose purpose, const Growth& growth, TimePoint now);

 private:
  bool drafts() const { return options_.first.chosen() != Strategy::kAr && !ended_; }
  void stop(const std::string& reason, TimePoint now, SpeculationActions& out);
  Growth grow_round();
  std::optional<Grow> select_round(const Growth& growth, TimePoint now);
  Growth grow_ahead();
  std::optional<Grow> select_ahead(TimePoint now);
  void note_sent(const Grow& grow, TimePoint now);
  void set_policy(const Policy& policy, TimePoint now, SpeculationActions& out);
  void review(TimePoint now, SpeculationActions& out);
  void note_change(PlanChange change, bool before, TimePoint now);
  void record_lookup(TimePoint now);
  void warm_start(const std::string& fingerprint);
  bool verifier_goes_on() const;
  Policy wanted_policy() const;

  const SpeculatorOptions options_;
  Drafter& drafter_;
  const ObserverList& observers_;
  std::unique_ptr<SpeculationStrategy> strategy_;
  Timings timings_;
  OnlineCalibration exits_;
  OtherVerifier other_;
  // These belong to the target that opened first.
  std::string profiled_target_;
  PairProfile began_with_;
  const std::shared_ptr<AnswerMemory> memory_;
  bool course_begun_ = false;
  bool uses_first_ = true;  // the verifier in use is the one that opened first
  std::optional<std::string> begins_without_;
  ByteAllowance allowance_;
  UplinkWindow uplink_;
  Policy policy_;
  RoundBounds bounds_;
  std::size_t answer_tokens_ = 0;
  std::optional<std::string> ended_;
  bool draft_failed_ = false;

  // These belong to the current stream.
  PassTracker passes_;
  bool stream_open_ = false;               // Open was sent
  bool opened_ = false;                    // Opened has arrived
  std::vector<std::int32_t> exit_layers_;  // as Opened says
  VerdictReview review_;                   // of the last verdict
};

}  // namespace outrider
