// Whether drafting pays off over a link to a server, on which side, and how.
//
// Candidates are tried on a few prompts; the best of them is judged on other prompts against plain
// decoding by the server, in turn, until the interval is narrow or time is over.
//
// Thread rule: one thread; blocks for as long as its answers take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "edge_client/doctor/diagnosis.h"
#include "edge_client/doctor/trial_answers.h"
#include "edge_client/generation/edge_setup.h"
#include "edge_client/metrics/session_observer.h"

namespace outrider {

// How far the server's clock is ahead of this device's, give or take.
struct ClockOffset {
  Duration ahead{0};
  Duration uncertain{0};
};

// The facts that the server stated about itself.
class ServerNotes final : public SessionObserver {
 public:
  void on_opened(const Opened& opened, Duration took, bool reconnected) override;
  const Opened& opened() const { return opened_; }
  // The clock's offset by the opening that took least time; nothing if the server does not send it.
  const std::optional<ClockOffset>& clock() const { return clock_; }
  // Whether it has added nodes of its own to an answer that allowed it.
  bool server_drafts() const { return server_drafts_; }

 private:
  Opened opened_;
  std::optional<ClockOffset> clock_;
  bool server_drafts_ = false;
};

class LinkDoctor final {
 public:
  // setup: of a config with a server and without a target, observed by `notes`.
  LinkDoctor(const GenerationConfig& config, EdgeSetup& setup, ServerNotes& notes,
             AnswerListener& listener, TrialAnswers& trials);

  // FAILED_PRECONDITION: hardly an answer is longer than one verdict. DATA_LOSS: two ways gave two
  // texts. Else why an answer failed.
  Result<Advice> examine();
  // The conditions that all answers met, and the link's speed.
  Result<Surroundings> surroundings() const;

 private:
  struct Candidate {
    DraftSide side;
    DraftingWay way;
  };
  bool finds_again() const;
  AnswerConfig begin(const Candidate& candidate);
  Result<TrialAnswers::Taken> answer(std::size_t prompt, const Candidate& candidate);
  std::vector<Candidate> candidates() const;
  Result<Candidate> screen(const std::vector<Candidate>& all, std::size_t prompts);
  Result<std::optional<Trial>> compare(std::size_t prompt, const Candidate& candidate);
  bool wants_more(std::size_t prompt, const std::vector<Trial>& trials, TimePoint until) const;

  const GenerationConfig& config_;
  RemoteVerifier* const link_;  // null: the server is not Outrider's
  ServerNotes& notes_;
  Generator generator_;
  TrialAnswers& trials_;
};

}  // namespace outrider
