// Speculation of one answer: asks its strategy what to grow, select and wait for, drives the
// drafter, and keeps what every strategy needs to know of the stream: whether the verifier waits
// for a round, the times of passes, draft steps and the link, and the room on the uplink.
//
//   (on_stream_opening on_opened (on_pass_started on_exit_report* on_verdict
//     on_answer_continues?)* on_stream_closed)*            decide() after each, on_draft_step when
//     due
//
// When the draft can go on no further, it says so once and goes on as Strategy::kAr does.
//
// Thread rule: pure; one thread. drafter and observers outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/protocol/messages.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/speculation/answer_learning.h"
#include "edge_client/speculation/next_round.h"
#include "edge_client/speculation/other_verifier.h"
#include "edge_client/speculation/pass_tracker.h"
#include "edge_client/speculation/round_bounds.h"
#include "edge_client/speculation/sending/sending_rule.h"
#include "edge_client/speculation/sending/uplink_window.h"
#include "edge_client/speculation/speculation_actions.h"
#include "edge_client/speculation/speculator_options.h"
#include "edge_client/speculation/strategies.h"
#include "edge_client/speculation/timings.h"

namespace outrider {

class Speculator final {
 public:
  Speculator(const SpeculatorOptions& options, Drafter& drafter, const ObserverList& observers);

  // The verifier follows this policy, or will when it has heard of it.
  const Policy& policy() const { return policy_; }
  Duration round_trip() const { return timings_.round_trip(); }
  // Why drafting ended before the answer did; nothing if it did not.
  const std::optional<std::string>& ended() const { return ended_; }
  // The draft model gave an error: it is of no use to later answers either.
  bool draft_failed() const { return draft_failed_; }

  const std::optional<std::string>& begins_without() const { return learning_.begins_without(); }
  // Of the verifier that the answer began with.
  auto learnt() const { return other_.learnt(learning_, *strategy_, timings_); }

  // Each event may ask for actions; `out` takes them in order.

  // The stream is over, and the next one goes to the other one of two verifiers.
  SpeculationActions on_other_verifier();
  // A stream opens; Open carries policy(). The drafter was restarted with the committed text.
  void on_stream_opening(SpeculationActions& out);
  // The stream was lost, or the answer is decided.
  void on_stream_closed() { stream_open_ = false; }
  // took: since Open left. end_position: of prompt and answer, as far as this target allows.
  void on_opened(const Opened& opened, Duration took, Position end_position);
  void on_pass_started(const Started& started, TimePoint now);
  // False if nothing is drafted ahead; then the advice is not taken.
  bool on_exit_report(const ExitAdvice& advice);
  void on_draft_step(const Result<DraftStepDone>& result, TimePoint now, SpeculationActions& out);

  struct Committed {
    std::optional<Duration> request_round_trip;  // of the request for the pass
    std::size_t sent_unused = 0;                 // nodes that died without having been a row
  };
  // Commits a verdict that has passed every check. round: what its pass verified.
  Committed on_verdict(const Verdict& verdict, const VerifiedRound& round, TimePoint now,
                       SpeculationActions& out);
  // The answer goes on after that verdict.
  void on_answer_continues(TimePoint now, SpeculationActions& out);

  // What to draft and send now.
  void decide(TimePoint now, SpeculationActions& out);

 private:
  bool drafts() const { return options_.strategy != Strategy::kAr && !ended_; }
  void stop(const std::string& reason, TimePoint now, SpeculationActions& out);
  void draft_round(TimePoint now, SpeculationActions& out);
  void send_round(Grow grow, TimePoint now, SpeculationActions& out);
  void draft_ahead(TimePoint now, SpeculationActions& out);
  void send_ahead(TimePoint now, SpeculationActions& out);
  void send_nodes(Grow grow, TimePoint now, SpeculationActions& out);
  void set_policy(const Policy& policy, TimePoint now, SpeculationActions& out);
  void review(TimePoint now, SpeculationActions& out);
  void note_change(PlanChange change, bool before, SpeculationActions& out);
  void record_lookup(TimePoint now);
  bool verifier_goes_on() const;

  const SpeculatorOptions options_;
  Drafter& drafter_;
  const ObserverList& observers_;
  std::unique_ptr<SpeculationStrategy> strategy_;
  Timings timings_;
  OtherVerifier other_;
  AnswerLearning learning_;
  ByteAllowance allowance_;
  UplinkWindow uplink_;
  Policy policy_;
  RoundBounds bounds_;
  std::size_t answer_tokens_ = 0;
  std::optional<std::string> ended_;
  bool draft_failed_ = false;

  // Of the current stream.
  PassTracker passes_;
  bool stream_open_ = false;  // Open has left
  bool opened_ = false;       // Opened came
  VerdictReview review_;      // of the last verdict
};

}  // namespace outrider
