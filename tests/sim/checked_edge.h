// The real edge in a simulation, with a toy draft over a SimLink. Holds its tree and every message
// against the reference model, loses its link, lets its user give up, and puts forged exit reports
// among what it hears.
//
// Thread rule: one thread. Ownership: simulation, link and target outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/sim_edge.h"
#include "sim/sim_link.h"
#include "sim/simulation.h"
#include "tests/sim/exit_forger.h"
#include "tests/sim/reference_model.h"
#include "tests/sim/toy_draft.h"

namespace outrider {

class CheckedEdge final : public AnswerText, public SimEdgeObserver {
 public:
  struct Plan {
    std::vector<TokenId> prompt;
    DecodingOptions decoding;  // strategy, sampling, end, stop ids
    int workers = 1;
    std::size_t cache_nodes = 256;
    ExitManner forged_exits = ExitManner::kNone;  // only of a server without exits
    float strays = 1;                             // of the draft
    Position draft_context = 1000;
    int prefill_chunk = 64;
    double cut = 0;                          // chance per event that the link breaks
    double cancel = 0;                       // chance per event that the user gives up
    std::optional<TokenId> stop_after = {};  // the token that completes a stop string
    // A new text of the answer; empty: tokens have none.
    std::function<std::unique_ptr<AnswerText>()> make_text = {};
    SimDraft::StepTime step_takes = {};
    std::optional<FailoverSetup> failover = {};
    Verifier* offline = nullptr;  // with failover: the other verifier
    LinkProbe* probe = nullptr;   // of the link to the first
  };

  CheckedEdge(Simulation& simulation, SimLink& link, const ToyModel& target, Plan plan);

  void begin() { edge_->begin(); }

  bool done() const { return edge_->done(); }
  const Finish& finish() const { return edge_->finish(); }
  // The first thing that was wrong; empty if nothing was.
  const std::string& failure() const { return failure_; }
  bool cancelled() const { return cancelled_; }
  const std::vector<TokenId>& shown() const { return shown_; }
  const std::vector<TokenId>& expected() const { return expected_; }
  // Log-probabilities of the expected tokens, each by the whole text before it; empty if not asked
  // for.
  std::vector<TokenLogprobs> expected_logprobs() const;
  // The same of the prompt's tokens but its first one.
  std::vector<TokenLogprobs> expected_prompt_logprobs() const;
  const std::string& shown_text() const { return shown_text_; }
  const std::string& expected_text() const { return expected_text_; }
  // How many tokens were shown when each of the streams began.
  const std::vector<std::size_t>& streams_began_at() const { return streams_began_at_; }
  const DecodingSession& session() const { return edge_->session(); }
  const FailoverFigures& failover() const { return edge_->failover()->figures(); }
  // Acknowledgements of exit reports that the server itself had sent.
  std::uint64_t acknowledged_reports() const { return acknowledged_reports_; }

 private:
  Update push(TokenId token) override;
  std::string finish() override { return text_ != nullptr ? text_->finish() : ""; }

  void on_event(SessionEvent& event) override;
  void on_action(SessionAction& action) override;
  void on_handled() override;

  void expect_text(AnswerText& text);
  void hear(std::uint32_t epoch, ServerMessage& message);
  void say(EdgeMessage& message);
  void forge_reports(std::uint32_t epoch, const Started& started);
  void fail(const std::string& what);

  Simulation& simulation_;
  SimLink& link_;
  const ToyModel& target_;
  const Plan plan_;
  std::vector<TokenId> expected_;
  std::string expected_text_;
  std::unique_ptr<AnswerText> text_;  // null: tokens have none
  ToyDraft draft_;
  ExitForger forger_;
  std::unique_ptr<SimEdge> edge_;

  // These belong to the stream that is open.
  std::unique_ptr<ReferenceModel> reference_;
  std::uint32_t last_report_ = 0;
  std::uint32_t acked_reports_ = 0;

  std::uint64_t acknowledged_reports_ = 0;
  std::vector<TokenId> shown_;
  std::string shown_text_;
  std::vector<std::size_t> streams_began_at_;
  int cuts_left_ = 50;  // a link that never lasts for a whole prefill would let no answer end
  bool cancelled_ = false;
  std::string failure_;
};

}  // namespace outrider
