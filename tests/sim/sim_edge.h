// The real edge in a simulation: decoding session, drafter and draft engine over a SimLink, with
// events in place of the shell's threads. Holds every message against the reference model.
//
// Thread rule: one thread. Ownership: simulation, link and models outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/drafting/draft_engine.h"
#include "edge_client/session/decoding_session.h"
#include "tests/sim/exit_forger.h"
#include "tests/sim/reference_model.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/simulation.h"
#include "tests/sim/toy_draft.h"

namespace outrider {

class SimEdge final : public AnswerText {
 public:
  struct Plan {
    std::vector<TokenId> prompt;
    DecodingOptions decoding;  // strategy, sampling, end, stop ids
    int workers = 1;
    std::size_t cache_nodes = 256;
    ExitManner exits = ExitManner::kNone;
    float strays = 1;  // of the draft
    Position draft_context = 1000;
    int prefill_chunk = 64;
    double cut = 0;                          // chance per event that the link breaks
    double cancel = 0;                       // chance per event that the user gives up
    std::optional<TokenId> stop_after = {};  // the token that completes a stop string
    Duration slowest_step = from_ms(10);
    // Instead of a random time: what a draft step takes, by its rows.
    std::function<Duration(std::size_t rows)> step_takes = {};
    // Of trained exits: when their reports come after the start of a pass, by its rows.
    std::function<Duration(std::size_t exit, std::size_t rows)> report_after = {};
  };

  SimEdge(Simulation& simulation, SimLink& link, const ToyModel& target, Plan plan);

  void begin();

  bool done() const { return finish_.has_value(); }
  const Finish& finish() const { return *finish_; }
  // The first thing that was wrong; empty if nothing was.
  const std::string& failure() const { return failure_; }
  bool cancelled() const { return cancelled_; }
  const std::vector<TokenId>& shown() const { return shown_; }
  const std::vector<TokenId>& expected() const { return expected_; }
  const DecodingSession& session() const { return *session_; }
  const Plan& plan() const { return plan_; }
  // Exit reports of the server's own that it has heard.
  std::uint64_t server_reports() const { return server_reports_; }

 private:
  Update push(TokenId token) override;
  std::string finish() override { return {}; }

  void hear(FromVerifier event);
  void forge_reports(std::uint32_t epoch, const Started& started);
  void handle(const SessionEvent& event);
  void take(const SessionActions& actions);
  void on(const Connect& connect);
  void on(const Send& send);
  void on(const RunDraftStep& run);
  void on(const AbandonDraftStep&);
  void finish_step(std::uint64_t number);
  void on(const Emit& emit);
  void on(const Say&) {}
  void on(const PrefillProgress&) {}
  void on(const Finish& finish) { finish_ = finish; }
  void fail(const std::string& what);

  Simulation& simulation_;
  SimLink& link_;
  const Plan plan_;
  std::vector<TokenId> expected_;
  ToyDraft draft_;
  std::unique_ptr<DraftEngine> engine_;
  std::unique_ptr<Drafter> drafter_;
  std::unique_ptr<DecodingSession> session_;
  ExitForger forger_;
  std::uint32_t epoch_ = 0;
  std::uint32_t last_server_report_ = 0;  // ExitReport.seq, of the stream that is open
  std::uint64_t server_reports_ = 0;
  std::unique_ptr<ReferenceModel> reference_;  // of the stream that is open
  std::vector<TokenId> shown_;
  std::optional<Finish> finish_;
  TimePoint tick_at_ = TimePoint::max();
  // The draft step that is out, one of four layers at a time.
  struct StepOut {
    DraftStep step;
    TimePoint began;
    Duration takes;
    std::atomic<bool> abandoned = false;
  };
  std::unique_ptr<StepOut> step_;
  std::uint64_t step_number_ = 0;
  bool cancelled_ = false;
  std::string failure_;
};

}  // namespace outrider
