// An adversary over a SimLink: acts at random times, loses its link and reconnects. Checks whatever
// the server says against the reference model and against decoding by the target alone.
//
// Thread rule: one thread. Ownership: simulation, link and target outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/edges/adversary.h"
#include "common/decoding/protocol/messages.h"
#include "sim/sim_link.h"
#include "sim/simulation.h"
#include "tests/sim/reference_model.h"
#include "tests/sim/toy_exits.h"
#include "tests/sim/toy_model.h"

namespace outrider {

class CheckedAdversary final {
 public:
  struct Plan {
    Open open;                      // what it asks for
    double guess_right = 0.5;       // how often a guess on the right path is the target's choice
    bool guesses = true;            // false: says nothing but what the rules demand
    double cancel = 0;              // chance per action
    double cut = 0;                 // chance per action that its link breaks
    Duration think = from_ms(15);   // longest time between two actions
    bool may_be_preempted = false;  // then its text may be read again at any time
  };

  // exits: of the target; null if it has none.
  CheckedAdversary(Simulation& simulation, SimLink& link, const ToyModel& target,
                   const ToyExits* exits, const Plan& plan);

  void begin();

  // It has its answer, or has cancelled and heard that the stream ended.
  bool done() const { return done_; }
  // Exit reports that it has seen.
  int reports() const { return reports_; }
  // The tokens of its text that came by nodes of the server's own.
  std::uint64_t server_tokens() const { return server_tokens_; }
  // The first thing that was wrong; empty if nothing was.
  const std::string& failure() const { return failure_; }
  const std::vector<TokenId>& text() const { return text_; }
  const std::vector<TokenId>& expected() const { return adversary_.script().expected; }
  bool cancelled() const { return cancelled_; }

  // Holds the server's side of a stream against the reference model of what was sent on it.
  void check_server(StreamId stream, const VerifySession& session);

 private:
  void open_stream();
  void on_event(const VerifierEvent& event);
  void check(const Opened& opened) { opened_ = opened; }
  void check(const Progress& progress);
  void check(const Started& started);
  void check(const Verdict& verdict);
  void check(const Usage& usage);
  void check(const ExitReport& report);
  void check(const Notice&) {}
  void check(const PromptLogprobs&) { fail("log-probabilities of a prompt that nobody asked for"); }
  void react_to_verdict();
  void on_end(const Status& status);

  void act();
  void act_later();
  void keep_alive();
  void compare_tree();
  std::size_t expected_walk() const;
  std::vector<TokenId> expected_exit_walk(std::size_t exit, std::size_t at_least) const;
  void fail(const std::string& what);

  Simulation& simulation_;
  SeededRandom& random_;
  SimLink& link_;
  const ToyExits* const exits_;
  const Plan plan_;
  const Position max_positions_;
  Adversary adversary_;
  std::vector<TokenId> text_;  // committed, over all streams

  // These belong to the stream that is open.
  std::uint32_t epoch_ = 0;
  std::shared_ptr<ReferenceModel> reference_;
  std::map<StreamId, std::shared_ptr<ReferenceModel>> references_;
  std::optional<Opened> opened_;
  std::optional<Started> started_;
  std::set<std::string> taken_;                                 // by the pass in work, as texts
  std::uint32_t last_report_ = 0;                               // ExitReport.seq
  std::set<std::pair<NodeId, std::vector<TokenId>>> reported_;  // in the pass in work
  std::uint64_t passes_ = 0;
  bool usage_seen_ = false;

  int reports_ = 0;
  std::uint64_t server_tokens_ = 0;
  std::string last_session_;
  bool cancelled_ = false;
  bool done_ = false;
  std::string failure_;
};

}  // namespace outrider
